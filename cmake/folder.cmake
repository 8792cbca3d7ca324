# nsvq_folders(): a library nsvq_FOLDER of the sources of each folder in cmake/folders.txt, linked with the folders that
# it may include. What a library needs besides stands in nsvq/FOLDER/library.cmake. CUDA sources (*.cu, *_cuda.cpp) are
# built with CUDA, *_no_cuda.cpp without.
set(NSVQ_FOLDER_TABLE "${PROJECT_SOURCE_DIR}/cmake/folders.txt")

macro(nsvq_folders)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${NSVQ_FOLDER_TABLE}")
  file(STRINGS "${NSVQ_FOLDER_TABLE}" rows REGEX "^[a-z]")
  foreach(row IN LISTS rows)
    if(NOT row MATCHES "^([a-z/]+):(.*)$")
      message(FATAL_ERROR "nsvq: ${NSVQ_FOLDER_TABLE}: '${row}' is not FOLDER: FOLDER...")
    endif()
    set(folder "${CMAKE_MATCH_1}")
    string(REGEX MATCHALL "[a-z/]+" below "${CMAKE_MATCH_2}")
    nsvq_folder("${folder}" "${below}" "${rows}")
    include("${PROJECT_SOURCE_DIR}/nsvq/${folder}/library.cmake" OPTIONAL)
  endforeach()
endmacro()

# nsvq_library(VARIABLE FOLDER): its library's name.
function(nsvq_library variable folder)
  string(REPLACE "/" "_" name "${folder}")
  set(${variable} nsvq_${name} PARENT_SCOPE)
endfunction()

function(nsvq_folder name below rows)
  set(folder "${PROJECT_SOURCE_DIR}/nsvq/${name}")
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${folder}/*.cpp")
  file(GLOB_RECURSE cuda_sources CONFIGURE_DEPENDS "${folder}/*.cu" "${folder}/*_cuda.cpp")
  file(GLOB_RECURSE no_cuda_sources CONFIGURE_DEPENDS "${folder}/*_no_cuda.cpp")
  foreach(row IN LISTS rows)  # subfolders that are libraries of their own
    if(row MATCHES "^(${name}/[a-z/]+):")
      foreach(list sources cuda_sources no_cuda_sources)
        list(FILTER ${list} EXCLUDE REGEX "/nsvq/${CMAKE_MATCH_1}/")
      endforeach()
    endif()
  endforeach()
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

  nsvq_library(library "${name}")
  add_library(${library} STATIC ${sources})
  target_include_directories(${library} PUBLIC "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
  if(NOT PROJECT_IS_TOP_LEVEL)
    target_compile_definitions(${library} INTERFACE NDEBUG)  # a program that adds nsvq needs it too (CMakeLists.txt)
  endif()
  target_compile_options(${library} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wconversion -Wshadow>)
  if(name MATCHES "^(settings|recipe|runs|runs/layout|report|experiments|cli)$")
    # They compute nothing; so they compile in two thirds of the time.
    target_compile_options(${library} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
  endif()
  foreach(other IN LISTS below)
    nsvq_library(linked "${other}")
    if(other STREQUAL "ops")
      # Whole: operators register themselves, so nothing refers to their kernels by symbol.
      set(linked $<LINK_LIBRARY:WHOLE_ARCHIVE,nsvq_ops>)
    endif()
    target_link_libraries(${library} PUBLIC ${linked})
  endforeach()
  nsvq_precompile(${library})
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
