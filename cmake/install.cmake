# `make install PREFIX=...`: the program, the operators for Python, recipes, completions for bash and zsh. LibTorch stays where
# it is: the RPATH of torch.cmake leads there.
include(GNUInstallDirs)
install(TARGETS nsvq RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(TARGETS nsvq_ops_python LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY configs/ DESTINATION "${CMAKE_INSTALL_DATADIR}/nsvq/configs" FILES_MATCHING PATTERN "*.yaml")
install(PROGRAMS scripts/weights.py DESTINATION "${CMAKE_INSTALL_DATADIR}/nsvq")
install(CODE "
  foreach(completion \"bash bash-completion/completions/nsvq\" \"zsh zsh/site-functions/_nsvq\")
    string(REPLACE \" \" \";\" completion \"\${completion}\")
    list(GET completion 0 shell)
    list(GET completion 1 name)
    set(file \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/\${name}\")
    get_filename_component(folder \"\${file}\" DIRECTORY)
    file(MAKE_DIRECTORY \"\${folder}\")
    execute_process(COMMAND \"$<TARGET_FILE:nsvq>\" completion \${shell} OUTPUT_FILE \"\${file}\" COMMAND_ERROR_IS_FATAL ANY)
    message(STATUS \"Installing: \${file}\")
  endforeach()
")
