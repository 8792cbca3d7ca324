// A program that uses a tokenizer as a library.

#include "nsvq/tokenizer/inference_session.h"

int main(int /*count*/, char** arguments) {
  nsvq::InferenceSession session(arguments[1]);
  const auto tokens = session.encode(at::zeros({1, 3, 16, 16}));
  const auto pictures = session.decode(tokens);
  return pictures.size(3) == 16 ? 0 : 1;
}
