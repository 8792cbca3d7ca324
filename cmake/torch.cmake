# The LibTorch of a `torch` wheel as one imported target, `torch`.
# Not find_package(Torch): with a CUDA wheel that one demands nvcc and a GPU even for a CPU build.

execute_process(
  COMMAND "${CMAKE_CURRENT_LIST_DIR}/../scripts/find_torch.sh"
  WORKING_DIRECTORY "${CMAKE_CURRENT_LIST_DIR}/.."
  OUTPUT_VARIABLE NSVQ_TORCH_DIR OUTPUT_STRIP_TRAILING_WHITESPACE
  ERROR_VARIABLE NSVQ_TORCH_ERROR ERROR_STRIP_TRAILING_WHITESPACE
  RESULT_VARIABLE NSVQ_TORCH_STATUS)
if(NOT NSVQ_TORCH_STATUS EQUAL 0 OR NSVQ_TORCH_DIR STREQUAL "")
  message(FATAL_ERROR "nsvq: no LibTorch; run `make setup` or set NSVQ_TORCH. ${NSVQ_TORCH_ERROR}")
endif()

# CUDA is built when it can be: nvcc, and a torch that was built with the same major version of CUDA.
if(DEFINED ENV{CUDACXX})
  set(NSVQ_NVCC "$ENV{CUDACXX}")
endif()
find_program(NSVQ_NVCC nvcc HINTS /usr/local/cuda/bin)
set(nvcc_major none)
if(NSVQ_NVCC)
  execute_process(COMMAND "${NSVQ_NVCC}" --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
  if(nvcc_version MATCHES "release ([0-9]+)")
    set(nvcc_major ${CMAKE_MATCH_1})
  endif()
endif()
set(torch_cuda_major unknown)
if(EXISTS "${NSVQ_TORCH_DIR}/version.py")
  file(READ "${NSVQ_TORCH_DIR}/version.py" torch_version)
  if(torch_version MATCHES "\ncuda: [^=]*= '([0-9]+)")
    set(torch_cuda_major ${CMAKE_MATCH_1})
  endif()
endif()
if(NSVQ_CUDA STREQUAL "AUTO")
  set(NSVQ_WITH_CUDA OFF)
  if(nvcc_major STREQUAL torch_cuda_major AND EXISTS "${NSVQ_TORCH_DIR}/lib/libtorch_cuda.so")
    set(NSVQ_WITH_CUDA ON)
  endif()
elseif(NSVQ_CUDA STREQUAL "ON" OR NSVQ_CUDA STREQUAL "OFF")
  set(NSVQ_WITH_CUDA ${NSVQ_CUDA})
else()
  message(FATAL_ERROR "nsvq: NSVQ_CUDA is '${NSVQ_CUDA}'; use AUTO, ON or OFF")
endif()

# nsvq_cuda_targets(VARIABLE NVCC): what CUDA sources are compiled for: the GPUs that are seen here or, where none is, all that
# search by tensor cores and that this nvcc knows, and PTX, which a driver compiles for later ones.
function(nsvq_cuda_targets variable nvcc)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE seen OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+" wanted "${seen}")
  string(REPLACE "." "" wanted "${wanted}")
  list(FILTER wanted EXCLUDE REGEX "^[1-7].$")  # no kernel of ours runs below compute capability 8.0
  list(REMOVE_DUPLICATES wanted)
  if(NOT status EQUAL 0 OR NOT wanted)
    set(wanted 80 86 89 90 100 120)
    set(ptx 90-virtual)
  endif()
  execute_process(COMMAND "${nvcc}" --list-gpu-code OUTPUT_VARIABLE known ERROR_QUIET)
  string(REGEX MATCHALL "[0-9]+" known "${known}")
  foreach(target IN LISTS wanted)
    if(NOT target IN_LIST known)
      list(APPEND ptx 90-virtual)  # a GPU newer than nvcc
    elseif(target EQUAL 90)
      list(APPEND targets 90a-real)  # with the instructions of sm_90a
    else()
      list(APPEND targets ${target}-real)
    endif()
  endforeach()
  list(REMOVE_DUPLICATES ptx)
  set(${variable} ${targets} ${ptx} PARENT_SCOPE)
endfunction()

if(NSVQ_WITH_CUDA)
  if(NOT NSVQ_NVCC OR NOT EXISTS "${NSVQ_TORCH_DIR}/lib/libtorch_cuda.so")
    message(FATAL_ERROR "nsvq: NSVQ_CUDA=ON needs nvcc (found: ${NSVQ_NVCC}) and a torch with CUDA (${NSVQ_TORCH_DIR}); use NSVQ_CUDA=OFF without them")
  endif()
  set(CMAKE_CUDA_COMPILER "${NSVQ_NVCC}")
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    nsvq_cuda_targets(CMAKE_CUDA_ARCHITECTURES "${NSVQ_NVCC}")
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that CUDA 13 has it.
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  # ATen's Philox engine indexes std::array, whose functions are constexpr: without this a kernel silently calls nothing.
  string(APPEND CMAKE_CUDA_FLAGS " --expt-relaxed-constexpr")
  find_package(CUDAToolkit REQUIRED)
endif()

add_library(torch INTERFACE)
target_include_directories(torch SYSTEM INTERFACE
  "${NSVQ_TORCH_DIR}/include" "${NSVQ_TORCH_DIR}/include/torch/csrc/api/include")
target_link_directories(torch INTERFACE "${NSVQ_TORCH_DIR}/lib")
# libstdc++ first: the aarch64 libtorch_cpu exports parts of its own std::filesystem.
target_link_libraries(torch INTERFACE stdc++ torch_cpu c10)
if(NSVQ_WITH_CUDA)
  # Nothing refers to torch_cuda by symbol, but its kernels must be loaded. Linked only: CUDA's headers are for the
  # files that need them (folder.cmake).
  target_link_libraries(torch INTERFACE -Wl,--no-as-needed torch_cuda c10_cuda -Wl,--as-needed $<LINK_ONLY:CUDA::cudart>)
endif()
list(APPEND CMAKE_BUILD_RPATH "${NSVQ_TORCH_DIR}/lib")
list(APPEND CMAKE_INSTALL_RPATH "${NSVQ_TORCH_DIR}/lib")
message(STATUS "nsvq: LibTorch ${NSVQ_TORCH_DIR}, CUDA ${NSVQ_WITH_CUDA} (nvcc ${nvcc_major}, torch ${torch_cuda_major})")
