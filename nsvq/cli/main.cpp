#include "nsvq/cli/program.h"

int main(int argc, char** argv) { return nsvq::run_program(argc, argv); }
