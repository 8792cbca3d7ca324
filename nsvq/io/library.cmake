target_link_libraries(nsvq_io PUBLIC JPEG::JPEG PNG::PNG ZLIB::ZLIB OpenSSL::Crypto ${NSVQ_LIBZIP} ${NSVQ_LIBWEBP} ${NSVQ_LIBZSTD})
target_include_directories(nsvq_io SYSTEM PRIVATE ${NSVQ_LIBZIP_INCLUDE})
