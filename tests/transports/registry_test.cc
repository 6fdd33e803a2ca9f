// SPDX-License-Identifier: Apache-2.0
#include "transports/registry.h"

#include <gtest/gtest.h>

#include <set>

namespace tutti::core {
namespace {

TEST(TransportRegistry, names_are_unique_and_found) {
  std::set<std::string_view> names;
  for (const TransportRow& row : transport_registry()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_transport(row.name), &row);
  }
  EXPECT_TRUE(names.count("shm"));
}

TEST(TransportRegistry, unknown_name_is_null) {
  EXPECT_EQ(find_transport("carrier-pigeon"), nullptr);
  EXPECT_EQ(find_transport(""), nullptr);
}

TEST(TransportRegistry, every_endpoint_says_its_own_name_or_why_not) {
  for (const TransportRow& row : transport_registry()) {
    auto endpoint = row.make();
    if (endpoint.is_ok())
      EXPECT_EQ((*endpoint)->name(), row.name);
    else
      EXPECT_FALSE(endpoint.status().message().empty());
  }
}

}  // namespace
}  // namespace tutti::core
