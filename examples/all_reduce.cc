// SPDX-License-Identifier: Apache-2.0
// Every rank contributes its number; all of them get the sum. Run: tutti run -n 4 ./all_reduce_cc
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <tutti/tutti.hpp>
#include <vector>

int main() try {
  auto comm = tutti::Communicator::from_environment({.name = "example"}).value();
  std::vector<float> data(1'000'000, static_cast<float>(comm.rank() + 1));
  std::vector<float> sum(data.size());

  comm.all_reduce(data, sum).or_throw();                     // blocks until the result is there
  tutti::Work work = comm.async().all_reduce(data).value();  // in place, returns at once: compute meanwhile ...
  work.wait(std::chrono::seconds(30)).or_throw();            // ... then wait

  const auto expected = static_cast<float>(comm.ranks() * (comm.ranks() + 1) / 2);
  const bool right = data == sum && std::all_of(sum.begin(), sum.end(), [=](float x) { return x == expected; });
  if (!right) std::cerr << "rank " << comm.rank() << ": wrong data\n";
  if (right && comm.rank() == 0)
    std::cout << "sum over " << comm.ranks() << " ranks: " << sum[0] << ", by " << work.times().value().algorithm
              << '\n';
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const tutti::Error& error) {
  std::cerr << tutti::name(error.code()) << ": " << error.what() << '\n';
  return EXIT_FAILURE;
}
