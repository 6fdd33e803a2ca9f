// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <initializer_list>
#include <string>
#include <utility>

#include "src/base/status.h"

namespace tutti::core {

/// A library opened at run time (verbs, UCX, NVML, CUDA, hwloc), so that one binary runs with and without it. An
/// absent library is a state, not a failure: the Status says which names were tried and what the loader answered.
class DynamicLibrary {
 public:
  DynamicLibrary() = default;
  DynamicLibrary(DynamicLibrary&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), name_(std::move(other.name_)) {}
  DynamicLibrary& operator=(DynamicLibrary&& other) noexcept;
  DynamicLibrary(const DynamicLibrary&) = delete;
  DynamicLibrary& operator=(const DynamicLibrary&) = delete;
  ~DynamicLibrary();

  /// Opens the first of `names` that loads; symbols stay local to this handle.
  static Result<DynamicLibrary> open(std::initializer_list<const char*> names);

  /// Binds `function` to the symbol, or says which symbol which library lacks.
  template <class F>
  Status bind(const char* symbol, F*& function) const {
    TUTTI_TRY(address, find(symbol));
    function = reinterpret_cast<F*>(address);
    return Status::ok();
  }
  Result<void*> find(const char* symbol) const;

  const std::string& name() const { return name_; }
  explicit operator bool() const { return handle_ != nullptr; }

 private:
  void* handle_ = nullptr;
  std::string name_;
};

}  // namespace tutti::core
