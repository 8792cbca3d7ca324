# With contracted multiply-adds drawn images would depend on the processor.
set_source_files_properties(
  "${PROJECT_SOURCE_DIR}/nsvq/data/sources/dead_leaves.cpp" "${PROJECT_SOURCE_DIR}/nsvq/data/sources/value_noise.cpp"
  PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
