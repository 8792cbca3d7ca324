# The page of runs: style and scripts of nsvq/report/page/ become strings of the program, the scripts one after the
# other in one function.
set(page_folder "${PROJECT_SOURCE_DIR}/nsvq/report/page")
file(READ "${page_folder}/page.css" NSVQ_PAGE_STYLE)
set(NSVQ_PAGE_SCRIPT "(() => {\n\"use strict\";\n")
set(page_files "${page_folder}/page.css")
foreach(name basics scale curves paint chart legend tables experiments pictures codebook live page)
  file(READ "${page_folder}/${name}.js" text)
  string(APPEND NSVQ_PAGE_SCRIPT "${text}")
  list(APPEND page_files "${page_folder}/${name}.js")
endforeach()
string(APPEND NSVQ_PAGE_SCRIPT "})();\n")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${page_files})
configure_file(cmake/page_files.h.in "${PROJECT_BINARY_DIR}/generated/nsvq/report/page_files.h" @ONLY)
# Alone, so that a change of the page compiles little.
set_source_files_properties("${PROJECT_SOURCE_DIR}/nsvq/report/page.cpp" PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
