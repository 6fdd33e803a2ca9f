// SPDX-License-Identifier: Apache-2.0
// Rank r finds r + 1 numbers; rank 0 learns how many everybody has, then gathers them all.
// Run: tutti run -n 4 ./gather_unequal_cc
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <tutti/tutti.hpp>
#include <vector>

int main() try {
  auto comm = tutti::Communicator::from_environment({.name = "example"}).value();
  const auto ranks = static_cast<std::size_t>(comm.ranks());
  const std::vector<int> found(static_cast<std::size_t>(comm.rank()) + 1, comm.rank());

  const std::uint64_t own = found.size();
  std::vector<std::uint64_t> counts(ranks);
  comm.all_gather(std::span(&own, 1), counts).or_throw();  // every rank gives the same counts to gather_v

  const tutti::Blocks packed{counts};  // one block after the other, in rank order
  std::vector<int> all(comm.rank() == 0 ? packed.extent() : 0);
  comm.gather_v(found, all, packed, 0).or_throw();

  if (comm.rank() != 0) return EXIT_SUCCESS;
  std::cout << "from " << ranks << " ranks:";
  for (const int value : all) std::cout << ' ' << value;
  std::cout << '\n';
  const bool right = all.size() == ranks * (ranks + 1) / 2 && all.front() == 0 && all.back() == comm.ranks() - 1;
  return right ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const tutti::Error& error) {
  std::cerr << tutti::name(error.code()) << ": " << error.what() << '\n';
  return EXIT_FAILURE;
}
