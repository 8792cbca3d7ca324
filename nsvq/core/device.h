#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>

namespace nsvq {

/// The device for the setting `device`: "cpu", "cuda", or "auto" (a GPU if this build supports CUDA
/// and one is visible). Throws UserError with the reason if "cuda" is not available.
/// Of several processes on a machine each takes the GPU of its number there; if there are fewer,
/// they share.
c10::Device choose_device(const std::string& name, int local_rank = 0);

/// A text for logs: "cpu, 2 threads" or "NVIDIA H200".
std::string describe(c10::Device device);

/// Peak memory in GiB: of the process for a CPU, of allocated tensors for a GPU.
double peak_memory(c10::Device device);
/// Peak memory in GiB that the allocator has taken from a GPU, with what it keeps for later tensors
/// and the pools of CUDA graphs. Nothing for a CPU, whose peak memory is the process's.
std::optional<double> peak_reserved_memory(c10::Device device);

/// Synchronises the host with a GPU, as torch.cuda.synchronize; returns at once for a CPU.
void wait_for(c10::Device device);

/// CPU cores that this process may use: a container's limit (cgroup v2), else all of the machine.
int usable_cores();

/// Threads to compute with where no setting says how many: OMP_NUM_THREADS, else the usable cores,
/// shared by so many processes of this machine. The 1 that torchrun sets for several processes is
/// nobody's wish.
int default_threads(int processes = 1);

/// Whether an error's text is that of an allocator, of a GPU or the CPU, that had too little.
bool is_out_of_memory(const std::string& error);
/// Turns such a text into a short one: requested and free memory.
std::string describe_out_of_memory(const std::string& error);

// Implemented in device_cuda.cpp, or in device_no_cuda.cpp without CUDA:

/// Makes a GPU the one that this thread's work goes to.
void use_gpu(int index);
/// Number of usable GPUs.
int gpu_count();
/// The reason why gpu_count() is 0, for an error message.
std::string why_no_gpu();
std::string gpu_name(c10::Device device);
/// Peak memory of allocated tensors, in bytes.
int64_t gpu_peak_memory(c10::Device device);
/// Peak memory that the allocator has taken, in bytes.
int64_t gpu_peak_reserved_memory(c10::Device device);

}  // namespace nsvq
