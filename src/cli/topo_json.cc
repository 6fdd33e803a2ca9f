// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "src/cli/topo.h"
#include "src/facts/machine.h"

namespace tutti::core {

namespace {

using Json = nlohmann::ordered_json;

Json to_json_value(const std::string& value) { return value; }
Json to_json_value(bool value) { return value; }
Json to_json_value(std::int64_t value) { return value; }
Json to_json_value(const std::vector<int>& value) { return value; }

template <class T>
Json to_json_value(const Limit<T>& limit) {
  return limit ? Json(*limit) : Json(nullptr);
}

Json node_or_null(int numa_node) { return numa_node >= 0 ? Json(numa_node) : Json(nullptr); }

Json to_json_value(const CacheFacts& cache) {
  return {{"level", cache.level}, {"type", cache.type}, {"bytes", cache.bytes}, {"shared_cpus", cache.shared_cpus}};
}

Json to_json_value(const NumaNodeFacts& node) {
  return {{"node", node.node},
          {"cpus", node.cpus},
          {"memory_bytes", node.memory_bytes > 0 ? Json(node.memory_bytes) : Json(nullptr)},
          {"distances", node.distances}};
}

Json to_json_value(const GpuFacts& gpu) {
  return {{"address", gpu.address}, {"vendor", gpu.vendor}, {"id", gpu.id},
          {"model", gpu.model},     {"driver", gpu.driver}, {"numa_node", node_or_null(gpu.numa_node)}};
}

Json to_json_value(const NetworkFacts& network) {
  return {{"name", network.name},
          {"state", network.state},
          {"driver", network.driver},
          {"megabits", to_json_value(network.megabits)},
          {"speed_problem", network.speed_problem},
          {"mtu", network.mtu},
          {"numa_node", node_or_null(network.numa_node)},
          {"is_loopback", network.is_loopback},
          {"is_virtual", network.is_virtual}};
}

Json to_json_value(const RdmaPortFacts& port) {
  return {{"device", port.device},         {"port", port.port},
          {"state", port.state},           {"rate", port.rate},
          {"link_layer", port.link_layer}, {"numa_node", node_or_null(port.numa_node)}};
}

template <class T>
Json to_json_value(const std::vector<T>& values) {
  Json list = Json::array();
  for (const T& value : values) list.push_back(to_json_value(value));
  return list;
}

}  // namespace

std::string topo_json(const MachineFacts& facts) {
  Json page;
  for_each_fact(facts, [&](const char* name, const auto& fact) {
    Json entry;
    if (fact.is_known()) {
      entry["value"] = to_json_value(*fact);
    } else {
      entry["problem"] = fact.problem();
    }
    entry["source"] = fact.source();
    page[name] = std::move(entry);
  });
  // A host name may hold any bytes; JSON may not.
  return page.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tutti::core
