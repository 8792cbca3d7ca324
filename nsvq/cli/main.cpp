#include "nsvq/cli/program.h"

int main(int argc, char** argv) {
  nsvq::open_standard_streams();
  return nsvq::run_program(argc, argv);
}
