#include "nsvq/report/run_page.h"

#include <c10/util/Exception.h>

#include <exception>

#include "nsvq/core/log.h"
#include "nsvq/report/make_code_map.h"
#include "nsvq/report/report.h"
#include "nsvq/runs/run_list.h"
#include "nsvq/tokenizer/open_model.h"

namespace nsvq {

void add_codes(PageRun& run) {
  try {
    run.codes = map_codes(run.path);
  } catch (const c10::Error& error) {
    run.no_codes = error.what_without_backtrace();
  } catch (const std::exception& error) {
    run.no_codes = error.what();
  }
}

PageRun page_run(const std::filesystem::path& run, const std::string& name, WithCodes codes) {
  const auto summary = describe_run(run);
  PageRun page{run, name, summary.state, {}, ""};
  // Of logs and settings the page tells by itself.
  if (!list_checkpoints(run).empty()) page.problem = summary.problem;
  if (codes == WithCodes::yes) add_codes(page);
  return page;
}

void complete_report(const std::filesystem::path& run) {
  try {
    PageRun page{run, run_name(run), "finished", {}, ""};
    add_codes(page);
    write_page(run / "report.html", {page});
  } catch (const std::exception& error) {
    log("{}: {}", (run / "report.html").string(), error.what());
  }
}

}  // namespace nsvq
