#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

namespace nsvq {

/// The device a recipe's `device` means: "cpu", "cuda", or "auto" (a GPU if this build and this
/// machine have one). Throws UserError saying why there is no GPU to use.
c10::Device choose_device(const std::string& name);

/// For people: "cpu, 2 threads" or "NVIDIA H200".
std::string describe(c10::Device device);

/// The most memory in use so far, in GiB: of the process on a CPU, of tensors on a GPU.
double peak_memory(c10::Device device);

/// Until a GPU has done all that it was given; a CPU is never behind.
void wait_for(c10::Device device);

/// Cores that this process may use, where a container has fewer than the machine.
int usable_cores();

/// For people, from the allocator's error: what was asked for, what there is, and what to do.
std::string describe_out_of_memory(const std::string& error);

// With CUDA (device_cuda.cpp) or without it (device_no_cuda.cpp):

/// Number of GPUs that can be used.
int gpu_count();
/// Why there is none, as an ending of a sentence.
std::string why_no_gpu();
std::string gpu_name(c10::Device device);
/// Bytes.
int64_t gpu_peak_memory(c10::Device device);

}  // namespace nsvq
