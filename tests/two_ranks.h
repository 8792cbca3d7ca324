#pragma once

#include <gtest/gtest.h>

#include <array>
#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "nsvq/dist/group.h"

namespace nsvq {

/// Runs `work(rank, group)` on two threads whose groups sum and broadcast between them.
inline void on_two_ranks(const std::function<void(int, Group&)>& work) {
  struct Meeting {
    std::barrier<> barrier{2};
    std::array<std::vector<torch::Tensor>, 2> brought;
  };
  class Rank : public Group {
   public:
    Rank(int rank, Meeting& meeting) : rank_(rank), meeting_(meeting) {}
    int rank() const override { return rank_; }
    int size() const override { return 2; }
    void sum(const std::vector<torch::Tensor>& tensors) override {
      meet(tensors, [](const torch::Tensor& a, const torch::Tensor& b) { return a + b; });
    }
    void broadcast(const std::vector<torch::Tensor>& tensors) override {
      meet(tensors, [](const torch::Tensor& a, const torch::Tensor&) { return a; });
    }

   private:
    using Combine = torch::Tensor (*)(const torch::Tensor&, const torch::Tensor&);
    void meet(const std::vector<torch::Tensor>& tensors, Combine combine) {
      auto& mine = meeting_.brought[rank_];
      mine.clear();
      for (const auto& tensor : tensors) mine.push_back(tensor.clone());
      meeting_.barrier.arrive_and_wait();
      for (size_t i = 0; i < tensors.size(); ++i) {
        tensors[i].copy_(combine(meeting_.brought[0].at(i), meeting_.brought[1].at(i)));
      }
      meeting_.barrier.arrive_and_wait();
    }

    int rank_;
    Meeting& meeting_;
  };
  Meeting meeting;
  const auto run = [&](int rank) {
    try {
      Rank group(rank, meeting);
      work(rank, group);
    } catch (const std::exception& error) {
      ADD_FAILURE() << "rank " << rank << ": " << error.what();
      meeting.barrier.arrive_and_drop();  // the other one must not wait forever
    }
  };
  std::thread first(run, 0), second(run, 1);
  first.join();
  second.join();
}

}  // namespace nsvq
