// An experiment of two quantizers, for tests of experiments and of their plans.
#pragma once

#include <gtest/gtest.h>

#include <string>

namespace nsvq {

inline constexpr auto kSmall = R"(
title: Two quantizers
columns: [psnr, drift]
scales:
  test: {over: [tiny.yaml], seeds: [0, 1]}
  cpu: {set: [train.epochs=2]}
figures:
  drift: {title: Drift, of: drift.drift, take: mean}
runs:
  vq: {title: VQ, recipe: vq.yaml, paper: {psnr: 22.2}}
  nsvq:
    recipe: nsvq.yaml
    set: [quantizer.alpha=0.2]
    test.set: [train.epochs=1]
  sweep: {recipe: nsvq.yaml, vary: quantizer.tau, values: [0.1, 1]}
charts:
  tau: {kind: sweep, y: [psnr], runs: [sweep]}
claims:
  better: {text: NSVQ is better, holds: ["nsvq:psnr > vq:psnr"]}
)";

/// The small experiment with one text replaced.
inline std::string with(const std::string& old_text, const std::string& new_text) {
  std::string text = kSmall;
  const auto at = text.find(old_text);
  EXPECT_NE(at, std::string::npos) << old_text;
  return text.replace(at, old_text.size(), new_text);
}

}  // namespace nsvq
