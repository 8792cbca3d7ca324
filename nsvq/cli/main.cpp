#include "nsvq/cli/program/program.h"

int main(int argc, char** argv) {
  nsvq::open_standard_streams();
  nsvq::begin_without_many_threads(argv);
  return nsvq::run_program(argc, argv);
}
