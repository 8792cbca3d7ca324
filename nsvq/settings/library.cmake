target_link_libraries(nsvq_settings PUBLIC yaml-cpp)
