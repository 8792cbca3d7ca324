#include "nsvq/tokenizer/evaluate.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "nsvq/core/interrupt.h"
#include "nsvq/data/sources/source.h"
#include "nsvq/recipe/loader_options.h"
#include "tests/reset_signals.h"
#include "tests/train/tiny.h"

namespace nsvq {
namespace {

TEST(Evaluate, EndsWithTheBatchInWhichASignalComes) {
  auto config = tiny_config();
  config.train.batch_size = 2;
  auto model = make_tokenizer(config, at::kCPU);
  Loader loader(open_source("builtin:dead-leaves?size=16&count=20"),
                inference_loader_options(config, at::kCPU));
  MetricSet metrics({"psnr"}, {});
  int batches = 0;
  const auto stop = [&](const EvalBatch&, const std::vector<int64_t>&) {
    if (++batches == 2) raise(SIGTERM);
  };
  reset_signals();
  catch_interrupts();
  EXPECT_THROW(evaluate(model, loader, at::kCPU, metrics, {.on_batch = stop}), Interrupted);
  EXPECT_EQ(batches, 2);
  catch_interrupts();  // forgets the signal
  metrics.reset();
  EXPECT_EQ(evaluate(model, loader, at::kCPU, metrics).at("images"), 20);
}

}  // namespace
}  // namespace nsvq
