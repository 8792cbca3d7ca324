# LibTorch holds Gloo's code, but its headers name Gloo's, which only Debian's package has.
find_path(NSVQ_GLOO_INCLUDE gloo/context.h REQUIRED)
target_include_directories(nsvq_dist SYSTEM PRIVATE ${NSVQ_GLOO_INCLUDE})
target_compile_definitions(nsvq_dist PRIVATE USE_C10D_GLOO)
if(NSVQ_WITH_CUDA)
  # The NCCL that LibTorch was built with, beside it in the wheels of PyPI; an installed one may be newer.
  find_path(NSVQ_NCCL_INCLUDE nccl.h HINTS "${NSVQ_TORCH_DIR}/../nvidia/nccl/include" REQUIRED)
  find_library(NSVQ_NCCL NAMES libnccl.so.2 HINTS "${NSVQ_TORCH_DIR}/../nvidia/nccl/lib" REQUIRED)
  target_include_directories(nsvq_dist SYSTEM PRIVATE ${NSVQ_NCCL_INCLUDE})
  target_link_libraries(nsvq_dist PUBLIC ${NSVQ_NCCL})
  get_filename_component(nccl_folder "${NSVQ_NCCL}" DIRECTORY)
  list(APPEND CMAKE_BUILD_RPATH "${nccl_folder}")
  list(APPEND CMAKE_INSTALL_RPATH "${nccl_folder}")
endif()
