// SPDX-License-Identifier: Apache-2.0
#include "src/base/dynamic_library.h"

#include <dlfcn.h>

namespace tutti::core {

DynamicLibrary& DynamicLibrary::operator=(DynamicLibrary&& other) noexcept {
  std::swap(handle_, other.handle_);
  std::swap(name_, other.name_);
  return *this;
}

DynamicLibrary::~DynamicLibrary() {
  if (handle_ != nullptr) dlclose(handle_);
}

Result<DynamicLibrary> DynamicLibrary::open(std::initializer_list<const char*> names) {
  std::string reasons;
  for (const char* name : names) {
    DynamicLibrary library;
    library.handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library.handle_ != nullptr) {
      library.name_ = name;
      return library;
    }
    const char* reason = dlerror();
    reasons += (reasons.empty() ? "" : "; ") + std::string(reason != nullptr ? reason : name);
  }
  return Status::error(TUTTI_UNAVAILABLE, reasons.empty() ? "no library name given" : reasons);
}

Result<void*> DynamicLibrary::find(const char* symbol) const {
  if (handle_ == nullptr) return Status::error(TUTTI_INTERNAL, std::string(symbol) + " asked of a library not opened");
  dlerror();  // a symbol may legitimately be null: only a fresh error text tells
  void* address = dlsym(handle_, symbol);
  if (const char* reason = dlerror()) return Status::error(TUTTI_UNAVAILABLE, reason);
  return address;
}

}  // namespace tutti::core
