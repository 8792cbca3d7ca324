# Alone, so that a new commit compiles little, and so that the HTTP library's headers stay out of other files.
set(program "${PROJECT_SOURCE_DIR}/nsvq/cli/program")
set_source_files_properties("${program}/version.cpp" "${PROJECT_SOURCE_DIR}/nsvq/cli/commands/watch.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
target_include_directories(nsvq_cli SYSTEM PRIVATE ${NSVQ_HTTPLIB_INCLUDE})
if(NSVQ_HTTPLIB)
  # The layout of its classes depends on how the library was built, which its pkg-config file tells.
  get_filename_component(httplib_folder "${NSVQ_HTTPLIB}" DIRECTORY)
  file(STRINGS "${httplib_folder}/pkgconfig/cpp-httplib.pc" httplib_flags REGEX "^Cflags:")
  string(REGEX MATCHALL "CPPHTTPLIB_[A-Z_]+" httplib_flags "${httplib_flags}")
  target_compile_definitions(nsvq_cli PRIVATE ${httplib_flags})
  target_link_libraries(nsvq_cli PRIVATE ${NSVQ_HTTPLIB})
endif()
