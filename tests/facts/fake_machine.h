// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tutti::core::testing {

/// A folder with a made-up proc/ and sys/, removed at the end.
class FakeMachine {
 public:
  FakeMachine() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tutti-facts-XXXXXX").string();
    EXPECT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;
  ~FakeMachine() { std::filesystem::remove_all(root_); }

  FakeMachine& file(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
    return *this;
  }
  FakeMachine& folder(const std::string& path) {
    std::filesystem::create_directories(root_ + path);
    return *this;
  }
  FakeMachine& link(const std::string& path, const std::string& target) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::filesystem::create_symlink(target, root_ + path);
    return *this;
  }
  const std::string& root() const { return root_; }

  /// Two sockets, four CPUs of which CPU 3 is not allowed, two GPUs, an InfiniBand port, two interfaces.
  FakeMachine& add_two_socket_server() {
    file("/proc/sys/kernel/hostname", "node-a\n").file("/proc/sys/kernel/osrelease", "6.1.0\n");
    file("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
    file("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Example CPU 9000\nmodel\t\t: 1\n");
    file("/proc/self/status", "Name:\tx\nCpus_allowed:\t7\nCpus_allowed_list:\t0-2\n");
    file("/proc/self/cgroup", "0::/job\n").file("/sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    file("/sys/fs/cgroup/job/cpu.max", "250000 100000\n").file("/sys/fs/cgroup/job/memory.max", "17179869184\n");
    file("/sys/devices/system/cpu/online", "0-3\n").file("/sys/devices/system/cpu/smt/active", "1\n");
    const std::string cache = "/sys/devices/system/cpu/cpu0/cache/index0";
    file(cache + "/level", "1\n").file(cache + "/type", "Data\n").file(cache + "/size", "48K\n");
    file(cache + "/shared_cpu_list", "0,2\n");
    file("/sys/devices/system/node/online", "0-1\n");
    for (const std::string node : {"0", "1"}) {
      const std::string path = "/sys/devices/system/node/node" + node;
      file(path + "/cpulist", node == "0" ? "0,2\n" : "1,3\n");
      file(path + "/meminfo", "Node " + node + " MemTotal:       33554432 kB\n");
      file(path + "/distance", node == "0" ? "10 21\n" : "21 10\n");
    }
    file("/proc/meminfo", "MemTotal:       67108864 kB\nMemFree:        1 kB\nMemAvailable:   50331648 kB\n");
    file("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    file("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size [advise] never deny force\n");
    return add_devices();
  }

 private:
  FakeMachine& add_devices() {
    for (const std::string address : {"0000:17:00.0", "0000:ca:00.0"}) {
      const std::string device = "/sys/bus/pci/devices/" + address;
      file(device + "/class", "0x030200\n").file(device + "/vendor", "0x10de\n").file(device + "/device", "0x2330\n");
      file(device + "/numa_node", address == "0000:17:00.0" ? "0\n" : "1\n");
      link(device + "/driver", "../../../../bus/pci/drivers/nvidia");
      file("/proc/driver/nvidia/gpus/" + address + "/information", "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ: 1\n");
    }
    file("/sys/bus/pci/devices/0000:00:00.0/class", "0x060000\n");
    const std::string net = "/sys/class/net/";
    file(net + "eth0/operstate", "up\n").file(net + "eth0/speed", "100000\n").file(net + "eth0/mtu", "9000\n");
    file(net + "eth0/type", "1\n").file(net + "eth0/device/numa_node", "1\n");
    link(net + "eth0/device/driver", "../../bus/pci/drivers/mlx5_core");
    file(net + "lo/operstate", "unknown\n").file(net + "lo/mtu", "65536\n").file(net + "lo/type", "772\n");
    file(net + "br0/operstate", "down\n").file(net + "br0/speed", "-1\n").file(net + "br0/type", "1\n");
    file(net + "bonding_masters", "\n");
    const std::string port = "/sys/class/infiniband/mlx5_0/ports/1";
    file(port + "/state", "4: ACTIVE\n").file(port + "/rate", "400 Gb/sec (4X NDR)\n");
    file(port + "/link_layer", "InfiniBand\n").file("/sys/class/infiniband/mlx5_0/device/numa_node", "0\n");
    return *this;
  }

  std::string root_;
};

}  // namespace tutti::core::testing
