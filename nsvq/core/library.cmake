target_link_libraries(nsvq_core PUBLIC fmt::fmt-header-only nlohmann_json::nlohmann_json Threads::Threads torch)
