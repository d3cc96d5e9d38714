#include "engines/shm/member_record.h"

#include <sstream>

namespace customccl::shm {

namespace {

constexpr const char* kFormat = "customccl-1";  // first word of every record

}  // namespace

std::string MemberRecord::to_text() const {
  std::ostringstream text;
  text << kFormat << ' ' << arena << ' ' << block_offset << ' ' << presence_offset << ' ' << presence << ' '
       << slot_bytes << ' ' << ring_bytes << ' ' << size << ' ' << to_string(cpus);
  return text.str();
}

Status MemberRecord::from_text(const std::string& text, MemberRecord& out) {
  std::istringstream words(text);
  std::string format;
  std::string cpus;
  words >> format >> out.arena >> out.block_offset >> out.presence_offset >> out.presence >> out.slot_bytes >>
      out.ring_bytes >> out.size >> cpus;
  if (!words || format != kFormat) {
    return {Code::kUnreachable,
            "it says \"" + text.substr(0, 400) +
                "\", and not where its memory is (do all ranks run the same version of customccl?)"};
  }
  out.cpus = parse_cpu_set(cpus);
  return {};
}

}  // namespace customccl::shm
