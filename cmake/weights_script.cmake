# scripts/weights.py as a string in the program, which thus works without the source tree.
set(script "${PROJECT_SOURCE_DIR}/scripts/weights.py")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${script}")
file(READ "${script}" NSVQ_WEIGHTS_SCRIPT)

# A torch in ENVIRONMENT/lib/pythonX.Y/site-packages has its Python in ENVIRONMENT/bin.
get_filename_component(NSVQ_TORCH_PYTHON "${NSVQ_TORCH_DIR}/../../../../bin/python3" ABSOLUTE)
if(NOT EXISTS "${NSVQ_TORCH_PYTHON}")
  set(NSVQ_TORCH_PYTHON "")
endif()
configure_file(cmake/weights_script.h.in "${PROJECT_BINARY_DIR}/generated/nsvq/cli/weights_script.h" @ONLY)
