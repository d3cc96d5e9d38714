#include "engines/shm/member_record.h"

#include <sstream>

#include "base/first_bytes.h"

namespace customccl::shm {

namespace {

constexpr const char* kFailure = "customccl-failed";
constexpr const char* kFormat = "customccl-3";  // first word of every record

Status failure_from(std::istringstream& words) {
  int code = 0;
  int culprit = -1;
  std::string why;
  words >> code >> culprit >> std::ws;
  if (!words || code <= static_cast<int>(Code::kOk) || code > static_cast<int>(Code::kSystem)) return {};
  std::getline(words, why, '\0');
  return {static_cast<Code>(code), "it gave up: " + why, culprit};
}

}  // namespace

std::string MemberRecord::failure(const Status& why) {
  constexpr std::size_t kMost = 1000;  // a notice board has room for more
  return std::string(kFailure) + ' ' + std::to_string(static_cast<int>(why.code)) + ' ' + std::to_string(why.culprit) +
         ' ' + std::string(first_bytes(why.message(), kMost));
}

bool MemberRecord::tells_failure(const std::string& text) { return text.starts_with(kFailure); }

std::string MemberRecord::to_text() const {
  std::ostringstream text;
  text << kFormat << ' ' << arena << ' ' << block_offset << ' ' << presence_offset << ' ' << presence << ' '
       << slot_bytes << ' ' << ring_bytes << ' ' << one_shot_bytes << ' ' << size << ' ' << to_string(cpus);
  return text.str();
}

Status MemberRecord::from_text(const std::string& text, MemberRecord& out) {
  std::istringstream words(text);
  std::string format;
  std::string cpus;
  words >> format;
  if (format == kFailure) {
    if (Status status = failure_from(words); !status.ok()) return status;
  }
  words >> out.arena >> out.block_offset >> out.presence_offset >> out.presence >> out.slot_bytes >> out.ring_bytes >>
      out.one_shot_bytes >> out.size >> cpus;
  if (!words || format != kFormat) {
    return {Code::kUnreachable,
            "it says \"" + std::string(first_bytes(text, 400)) +
                "\", and not where its memory is (do all ranks run the same version of customccl?)"};
  }
  out.cpus = parse_cpu_set(cpus);
  return {};
}

}  // namespace customccl::shm
