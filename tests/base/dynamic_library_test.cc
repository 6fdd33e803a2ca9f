// SPDX-License-Identifier: Apache-2.0
#include "src/base/dynamic_library.h"

#include <gtest/gtest.h>

namespace tutti::core {
namespace {

TEST(DynamicLibrary, opens_the_first_name_that_loads_and_binds_functions) {
  Result<DynamicLibrary> library = DynamicLibrary::open({"libtutti-absent.so.7", "libm.so.6"});
  ASSERT_TRUE(library.is_ok()) << library.status().to_string();
  EXPECT_EQ(library->name(), "libm.so.6");
  double (*cosine)(double) = nullptr;
  ASSERT_TRUE(library->bind("cos", cosine).is_ok());
  EXPECT_DOUBLE_EQ(cosine(0.0), 1.0);
}

TEST(DynamicLibrary, absence_names_every_library_tried) {
  const Result<DynamicLibrary> library = DynamicLibrary::open({"libtutti-absent.so.7", "libtutti-absent.so"});
  ASSERT_FALSE(library.is_ok());
  EXPECT_EQ(library.status().code(), TUTTI_UNAVAILABLE);
  EXPECT_NE(library.status().message().find("libtutti-absent.so.7"), std::string::npos);
  EXPECT_NE(library.status().message().find("libtutti-absent.so:"), std::string::npos);
}

TEST(DynamicLibrary, absent_symbol_is_named) {
  Result<DynamicLibrary> library = DynamicLibrary::open({"libm.so.6"});
  ASSERT_TRUE(library.is_ok());
  void (*function)() = nullptr;
  const Status status = library->bind("tutti_no_such_symbol", function);
  EXPECT_EQ(status.code(), TUTTI_UNAVAILABLE);
  EXPECT_NE(status.message().find("tutti_no_such_symbol"), std::string::npos);
  EXPECT_EQ(function, nullptr);
}

TEST(DynamicLibrary, moved_from_library_is_empty) {
  Result<DynamicLibrary> library = DynamicLibrary::open({"libm.so.6"});
  ASSERT_TRUE(library.is_ok());
  DynamicLibrary other = std::move(*library);
  EXPECT_TRUE(other);
  EXPECT_FALSE(*library);
  EXPECT_EQ(library->find("cos").status().code(), TUTTI_INTERNAL);
}

}  // namespace
}  // namespace tutti::core
