# Kernels are compiled one by one: what one includes for its instruction set stays its own.
file(GLOB_RECURSE kernels CONFIGURE_DEPENDS "${CMAKE_CURRENT_LIST_DIR}/*_cpu.cpp")
set_source_files_properties(${kernels} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
# With contracted multiply-adds the nearest of codes whose distances fp64 hardly tells apart would depend on the processor.
set_source_files_properties("${CMAKE_CURRENT_LIST_DIR}/code_search/cpu/exact_distance_cpu.cpp" PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
