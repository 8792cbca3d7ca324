#include "bench/program.h"

int main(int argc, char** argv) { return nsvq::run_benchmarks(argc, argv); }
