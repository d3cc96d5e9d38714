#include "platform/cgroup.h"

#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <vector>

#include "platform/cpu.h"
#include "platform/once_per_process.h"
#include "platform/settings_reader.h"

// A process belongs to one group per hierarchy (/proc/self/cgroup: "id:controllers:path"), and each hierarchy may be
// mounted anywhere, from any of its groups on (/proc/self/mountinfo: "... root mountpoint ... - type source options").
// A limit of any ancestor binds, so the walk goes from the process's group up to the mount point. Version 2 keeps quota
// and period in one file (cpu.max: "200000 100000" or "max 100000"), version 1 in two (cpu.cfs_quota_us, -1 for none,
// and cpu.cfs_period_us).

namespace customccl {
namespace {

struct Hierarchy {
  bool version2 = false;
  std::string group;  // this process's group, as the hierarchy names it
};

struct Mount {
  std::string root;   // the group shown at the mount point
  std::string point;  // where
};

std::vector<Hierarchy> hierarchies_with_cpu(const std::string& root) {
  std::vector<Hierarchy> found;
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);) {
    const std::size_t first = line.find(':');
    if (first == std::string::npos) continue;
    const std::size_t second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool version2 = controllers.empty();
    if (version2 || list_contains(controllers, "cpu")) found.push_back({version2, line.substr(second + 1)});
  }
  return found;
}

std::optional<Mount> find_mount(const std::string& root, bool version2) {
  std::ifstream file(root + "/proc/self/mountinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t dash = line.find(" - ");
    if (dash == std::string::npos) continue;
    std::istringstream tail(line.substr(dash + 3));
    std::string type, source, options;
    tail >> type >> source >> options;
    if (version2 ? type != "cgroup2" : type != "cgroup" || !list_contains(options, "cpu")) continue;
    std::istringstream fields(line);
    std::string id, parent, device;
    Mount mount;
    fields >> id >> parent >> device >> mount.root >> mount.point;
    return mount;
  }
  return std::nullopt;
}

double limit_in(const std::string& folder, bool version2) {
  std::string quota, period;
  if (version2) {
    std::ifstream(folder + "/cpu.max") >> quota >> period;
  } else {
    std::ifstream(folder + "/cpu.cfs_quota_us") >> quota;
    std::ifstream(folder + "/cpu.cfs_period_us") >> period;
  }
  double quota_us = 0;
  double period_us = 0;
  if (!(std::istringstream(quota) >> quota_us) || !(std::istringstream(period) >> period_us)) return 0;
  return quota_us > 0 && period_us > 0 ? quota_us / period_us : 0;
}

// The group's path seen from the mount point: "" or "/a/b". A group outside of the mounted part (a container that
// shares the host's cgroup names) is taken for the mount point itself.
std::string below_mount(std::string_view group, std::string_view mount_root) {
  if (mount_root == "/") mount_root = "";
  const bool inside =
      group.starts_with(mount_root) && (group.size() == mount_root.size() || group[mount_root.size()] == '/');
  if (!inside) return "";
  const std::string_view rest = group.substr(mount_root.size());
  return rest == "/" ? "" : std::string(rest);
}

}  // namespace

double cgroup_cpu_limit_below(const std::string& root) {
  double tightest = 0;
  for (const Hierarchy& hierarchy : hierarchies_with_cpu(root)) {
    const auto mount = find_mount(root, hierarchy.version2);
    if (!mount) continue;
    std::string path = below_mount(hierarchy.group, mount->root);
    for (;;) {
      const double limit = limit_in(root + mount->point + path, hierarchy.version2);
      if (limit > 0 && (tightest == 0 || limit < tightest)) tightest = limit;
      if (path.empty()) break;
      path.resize(path.rfind('/'));
    }
  }
  return tightest;
}

double cgroup_cpu_limit() {
  return made_once<[] { return cgroup_cpu_limit_below(""); }>();
}

}  // namespace customccl
