# The file of Python that `nsvq export` writes becomes a string of the program.
set(model_file "${PROJECT_SOURCE_DIR}/nsvq/tokenizer/pytorch_model.py")
file(READ "${model_file}" NSVQ_PYTORCH_MODEL)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${model_file}")
configure_file(cmake/pytorch_model.h.in "${PROJECT_BINARY_DIR}/generated/nsvq/tokenizer/pytorch_model.h" @ONLY)
# Alone, so that a change of the file compiles little.
set_source_files_properties("${PROJECT_SOURCE_DIR}/nsvq/tokenizer/exchange/export_model.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
