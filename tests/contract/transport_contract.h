// SPDX-License-Identifier: Apache-2.0
// The suite that every transport passes (transports/transport.h is the text, this is the proof), in three parts: what
// holds for all, for mapped links, and for messages. A transport's test program links the parts that apply and
// instantiates them:
//
//   TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(TransportContract, shm, TransportCase{"shm", make_shm_endpoint});
//   TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(MappedTransportContract, shm, TransportCase{"shm", make_shm_endpoint});
//
// An endpoint that is not viable on this machine skips every test, with its reason.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <ostream>
#include <string>

#include "tests/contract/two_processes.h"
#include "transports/transport.h"

namespace tutti::core::contract {

struct TransportCase {
  std::string name;
  PeerProcess::MakeEndpoint make;
};

inline void PrintTo(const TransportCase& transport, std::ostream* out) { *out << transport.name; }
inline std::string transport_case_name(const ::testing::TestParamInfo<TransportCase>& info) { return info.param.name; }

class TransportContract : public ::testing::TestWithParam<TransportCase> {
 protected:
  void SetUp() override;
  void TearDown() override { endpoint_.reset(); }

  std::unique_ptr<Endpoint> make_another() const;

  std::unique_ptr<Endpoint> endpoint_;
};

/// For transports whose links are mapped; program links transport_contract_mapped.
class MappedTransportContract : public TransportContract {
 protected:
  void SetUp() override {
    TransportContract::SetUp();
    ASSERT_TRUE(!endpoint_ || endpoint_->capabilities().mapped);
  }
};

/// For transports whose links carry messages; program links transport_contract_messages.
class MessageTransportContract : public TransportContract {
 protected:
  void SetUp() override {
    TransportContract::SetUp();
    ASSERT_TRUE(!endpoint_ || endpoint_->capabilities().messages);
  }
};

#define TUTTI_INSTANTIATE_TRANSPORT_CONTRACT(suite, prefix, ...) \
  INSTANTIATE_TEST_SUITE_P(prefix, suite, ::testing::Values(__VA_ARGS__), transport_case_name)

}  // namespace tutti::core::contract
