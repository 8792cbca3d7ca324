# nsvq_folder(NAME [LINK libraries...]): the sources of nsvq/NAME as library nsvq_NAME, on top of the
# folders named before it. CUDA sources (*.cu, *_cuda.cpp) are built with CUDA, *_no_cuda.cpp without.
set(NSVQ_BELOW "")

function(nsvq_folder name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  set(folder "${PROJECT_SOURCE_DIR}/nsvq/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${folder}/*.cu" "${folder}/*_cuda.cpp")
  file(GLOB_RECURSE no_cuda_sources CONFIGURE_DEPENDS "${folder}/*_no_cuda.cpp")
  list(REMOVE_ITEM cuda_sources ${no_cuda_sources} "")
  list(REMOVE_ITEM sources ${cuda_sources} ${no_cuda_sources} "${folder}/main.cpp")
  # Outside the unity build, so that the other files are compiled alike with and without CUDA: NSVQ_CUDA can be
  # switched in a build folder, and what is not CUDA stays compiled.
  set_source_files_properties(${cuda_sources} ${no_cuda_sources} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  if(NSVQ_WITH_CUDA)
    list(APPEND sources ${cuda_sources})
    list(FILTER cuda_sources INCLUDE REGEX "\\.cpp$")
    list(TRANSFORM CUDAToolkit_INCLUDE_DIRS PREPEND "-isystem" OUTPUT_VARIABLE cuda_headers)
    set_source_files_properties(${cuda_sources} PROPERTIES COMPILE_OPTIONS "${cuda_headers}")
  else()
    list(APPEND sources ${no_cuda_sources})
  endif()

  add_library(nsvq_${name} STATIC ${sources})
  target_include_directories(nsvq_${name} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  target_compile_options(nsvq_${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>)
  target_link_libraries(nsvq_${name} PUBLIC ${arg_LINK})
  if(NSVQ_BELOW STREQUAL "ops")
    # Whole: operators register themselves, so nothing refers to their kernels by symbol.
    target_link_libraries(nsvq_${name} PUBLIC $<LINK_LIBRARY:WHOLE_ARCHIVE,nsvq_ops>)
  elseif(NSVQ_BELOW)
    target_link_libraries(nsvq_${name} PUBLIC nsvq_${NSVQ_BELOW})
  endif()
  nsvq_precompile(nsvq_${name})
  if(name STREQUAL "ops")
    # Kernels are compiled one by one: what one includes for its instruction set stays its own.
    set_target_properties(nsvq_ops PROPERTIES UNITY_BUILD OFF)
  endif()
  set(NSVQ_BELOW ${name} PARENT_SCOPE)
endfunction()

# Parsing torch/types.h takes some 10 s, loading a precompiled copy 2 s. The copy is made with core and
# serves every target above it. torch/nn headers stay out: they add 4 s of code to every user.
function(nsvq_precompile target)
  if(target STREQUAL "nsvq_core")
    target_precompile_headers(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${PROJECT_SOURCE_DIR}/nsvq/core/precompiled.h>)
  else()
    target_precompile_headers(${target} REUSE_FROM nsvq_core)
    # The copy was made for libraries (-fPIC) and is refused for anything else (-fPIE).
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fPIC> $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC>)
  endif()
endfunction()
