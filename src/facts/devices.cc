// SPDX-License-Identifier: Apache-2.0
// Graphics processors, network interfaces and RDMA ports, from /sys.
#include "src/base/text.h"
#include "src/facts/machine.h"

namespace tutti::core {

namespace {

/// The text of an attribute, or "".
std::string attribute(const FactReader& reader, const std::string& path) {
  Result<std::string> text = reader.read(path);
  return text.is_ok() ? std::move(text).value() : std::string();
}

std::int64_t number(const FactReader& reader, const std::string& path, std::int64_t fallback) {
  const Result<std::int64_t> value = reader.read_int(path);
  return value.is_ok() ? value.value() : fallback;
}

int numa_node_of(const FactReader& reader, const std::string& device) {
  return static_cast<int>(number(reader, device + "/numa_node", -1));
}

std::string without_0x(const std::string& text) { return text.starts_with("0x") ? text.substr(2) : text; }

/// PCI vendor numbers (pci-ids.ucw.cz) of what shows up with a display class.
std::string vendor_name(const std::string& id) {
  constexpr struct {
    std::string_view id;
    const char* name;
  } kVendors[] = {{"10de", "NVIDIA"},    {"1002", "AMD"},   {"8086", "Intel"},  {"1a03", "ASPEED"},
                  {"102b", "Matrox"},    {"1234", "QEMU"},  {"1af4", "Virtio"}, {"15ad", "VMware"},
                  {"1414", "Microsoft"}, {"1d0f", "Amazon"}};
  for (const auto& vendor : kVendors)
    if (vendor.id == id) return vendor.name;
  return "vendor " + id;
}

}  // namespace

Fact<std::vector<GpuFacts>> read_gpus(const FactReader& reader) {
  const std::string folder = "/sys/bus/pci/devices";
  const Result<std::vector<std::string>> addresses = reader.list(folder);
  if (!addresses.is_ok()) return Fact<std::vector<GpuFacts>>::missing(folder, addresses.status());
  std::vector<GpuFacts> gpus;
  for (const std::string& address : addresses.value()) {
    const std::string device = folder + "/" + address;
    if (!attribute(reader, device + "/class").starts_with("0x03")) continue;
    GpuFacts gpu;
    gpu.address = address;
    const std::string vendor = without_0x(attribute(reader, device + "/vendor"));
    gpu.vendor = vendor_name(vendor);
    gpu.id = vendor + ":" + without_0x(attribute(reader, device + "/device"));
    gpu.model = value_of_key(attribute(reader, "/proc/driver/nvidia/gpus/" + address + "/information"), "Model");
    gpu.driver = reader.link_target_name(device + "/driver");
    gpu.numa_node = numa_node_of(reader, device);
    gpus.push_back(std::move(gpu));
  }
  return {std::move(gpus), folder};
}

Fact<std::vector<NetworkFacts>> read_networks(const FactReader& reader) {
  const std::string folder = "/sys/class/net";
  const Result<std::vector<std::string>> names = reader.list(folder);
  if (!names.is_ok()) return Fact<std::vector<NetworkFacts>>::missing(folder, names.status());
  std::vector<NetworkFacts> networks;
  for (const std::string& name : names.value()) {
    const std::string interface = folder + "/" + name;
    if (!reader.exists(interface + "/operstate")) continue;  // bonding_masters is a file, not an interface
    NetworkFacts network;
    network.name = name;
    network.state = attribute(reader, interface + "/operstate");
    network.driver = reader.link_target_name(interface + "/device/driver");
    const Result<std::int64_t> speed = reader.read_int(interface + "/speed");
    if (speed.is_ok() && speed.value() > 0) {  // -1: the driver does not know
      network.megabits = speed.value();
    } else {
      network.speed_problem = speed.is_ok() ? "the driver does not tell" : speed.status().message();
    }
    network.mtu = number(reader, interface + "/mtu", 0);
    network.numa_node = numa_node_of(reader, interface + "/device");
    constexpr std::int64_t kLoopbackType = 772;  // ARPHRD_LOOPBACK
    network.is_loopback = number(reader, interface + "/type", 0) == kLoopbackType;
    network.is_virtual = !reader.exists(interface + "/device");
    networks.push_back(std::move(network));
  }
  return {std::move(networks), folder};
}

Fact<std::vector<RdmaPortFacts>> read_rdma_ports(const FactReader& reader) {
  const std::string folder = "/sys/class/infiniband";
  std::vector<RdmaPortFacts> ports;
  // Without RDMA modules there is no such folder: that is an answer, unlike a refused permission.
  if (reader.exists("/sys/class") && !reader.exists(folder)) return {ports, folder};
  const Result<std::vector<std::string>> devices = reader.list(folder);
  if (!devices.is_ok()) return Fact<std::vector<RdmaPortFacts>>::missing(folder, devices.status());
  for (const std::string& device : devices.value()) {
    const Result<std::vector<std::string>> numbers = reader.list(folder + "/" + device + "/ports");
    if (!numbers.is_ok()) continue;
    for (const std::string& port_number : numbers.value()) {
      const std::string path = folder + "/" + device + "/ports/" + port_number;
      RdmaPortFacts port;
      port.device = device;
      port.port = static_cast<int>(parse_int(port_number).value_or(0));
      const std::string state = attribute(reader, path + "/state");  // "4: ACTIVE"
      const std::size_t colon = state.find(':');
      port.state = colon == std::string::npos ? state : std::string(trim(std::string_view(state).substr(colon + 1)));
      port.rate = attribute(reader, path + "/rate");
      port.link_layer = attribute(reader, path + "/link_layer");
      port.numa_node = numa_node_of(reader, folder + "/" + device + "/device");
      ports.push_back(std::move(port));
    }
  }
  return {std::move(ports), folder};
}

}  // namespace tutti::core
