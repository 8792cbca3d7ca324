#include "nsvq/dist/group.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <vector>

#include "tests/environment.h"
#include "tests/error_of.h"

namespace nsvq {
namespace {

/// The variables that launchers set: those given, with all others unset.
///
class Variables {
 public:
  using Named = std::map<std::string, std::string>;

  explicit Variables(const Named& given) {
    for (const char* name :
         {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
          "TORCHELASTIC_USE_AGENT_STORE", "TORCHELASTIC_RESTART_COUNT", "SLURM_STEP_ID",
          "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NNODES", "SLURM_STEP_NODELIST",
          "SLURM_JOB_NODELIST", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"}) {
      const auto found = given.find(name);
      set_.push_back(std::make_unique<Environment>(
          name, found == given.end() ? std::nullopt : std::optional(found->second)));
    }
  }

 private:
  std::vector<std::unique_ptr<Environment>> set_;
};

TEST(Launch, WithoutALauncherThereIsOneProcess) {
  const Variables none(Variables::Named{});
  EXPECT_TRUE(launch_from_environment().alone());
  const Variables one(Variables::Named{{"WORLD_SIZE", "1"}});
  EXPECT_TRUE(launch_from_environment().alone());
}

TEST(Launch, ReadsTorchrunsVariables) {
  const Variables set(Variables::Named{{"RANK", "5"},
                                       {"WORLD_SIZE", "8"},
                                       {"LOCAL_RANK", "1"},
                                       {"LOCAL_WORLD_SIZE", "4"},
                                       {"MASTER_ADDR", "node-1"},
                                       {"MASTER_PORT", "29500"},
                                       {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                       {"TORCHELASTIC_RESTART_COUNT", "2"}});
  const auto launch = launch_from_environment();
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 8);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.address, "node-1");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_TRUE(launch.agent_store);
  EXPECT_EQ(launch.attempt, 2);
}

TEST(Launch, ReadsSlurmsVariables) {
  const Variables set(Variables::Named{{"SLURM_STEP_ID", "0"},
                                       {"SLURM_PROCID", "3"},
                                       {"SLURM_NTASKS", "4"},
                                       {"SLURM_LOCALID", "1"},
                                       {"SLURM_NNODES", "2"},
                                       {"SLURM_STEP_NODELIST", "gpu[003-007,12],login"},
                                       {"SLURM_JOB_ID", "4711"}});
  const auto launch = launch_from_environment();
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.address, "gpu003");
  EXPECT_EQ(launch.port, 24711);
  EXPECT_FALSE(launch.agent_store);
}

TEST(Launch, NamesTheVariableThatIsWrong) {
  {
    const Variables set(Variables::Named{{"WORLD_SIZE", "many"}});
    EXPECT_EQ(error_of([] { launch_from_environment(); }),
              "WORLD_SIZE is 'many', not a number from 1 to 1048576; torchrun and srun set it");
  }
  {
    const Variables set(Variables::Named{{"WORLD_SIZE", "2"}});
    EXPECT_EQ(error_of([] { launch_from_environment(); }),
              "RANK is not set, though other variables of a launcher are; torchrun sets it");
  }
  const Variables set(Variables::Named{{"WORLD_SIZE", "2"}, {"RANK", "2"}});
  EXPECT_EQ(error_of([] { launch_from_environment(); }),
            "RANK is '2', not a number from 0 to 1; torchrun and srun set it");
}

}  // namespace
}  // namespace nsvq
