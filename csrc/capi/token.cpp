#include "capi/token.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "capi/error.h"
#include "platform/process.h"

namespace customccl::capi {

namespace {

constexpr std::string_view kPrefix = "customccl1:";
constexpr std::size_t kIdLength = 32;
constexpr std::size_t kMaxDirectory =
    sizeof(customccl_token::text) - kPrefix.size() - kIdLength - 2;  // ':' and the zero byte

// A token is a line of text. What is beyond ASCII may be a letter.
bool printable(char letter) { return static_cast<unsigned char>(letter) >= ' ' && letter != '\x7f'; }

bool usable(const char* directory) {
  struct stat facts{};
  return directory != nullptr && directory[0] == '/' && std::strlen(directory) <= kMaxDirectory &&
         std::all_of(directory, directory + std::strlen(directory), printable) && ::stat(directory, &facts) == 0 &&
         S_ISDIR(facts.st_mode) && ::faccessat(AT_FDCWD, directory, W_OK | X_OK, AT_EACCESS) == 0;
}

}  // namespace

Status Token::make(Token& out) {
  out.id = to_hex(random_id());
  for (const char* directory : {static_cast<const char*>(std::getenv("XDG_RUNTIME_DIR")),
                                static_cast<const char*>(std::getenv("TMPDIR")), "/tmp"}) {
    if (!usable(directory)) continue;
    out.directory = directory;
    return {};
  }
  return {Code::kSystem,
          "customccl: no directory to meet in: neither XDG_RUNTIME_DIR, TMPDIR nor /tmp is one in which files can "
          "be made. Set TMPDIR."};
}

Status Token::parse(const customccl_token& text, Token& out) {
  const std::string_view whole(text.text, ::strnlen(text.text, sizeof(text.text)));
  const std::size_t head = kPrefix.size() + kIdLength;
  const bool shaped = whole.size() < sizeof(text.text) && whole.substr(0, kPrefix.size()) == kPrefix &&
                      whole.size() > head + 1 && whole[head] == ':' && whole[head + 1] == '/';
  out.id = shaped ? whole.substr(kPrefix.size(), kIdLength) : "";
  // The id becomes part of a path.
  if (!shaped || out.id.find_first_not_of("0123456789abcdef") != std::string::npos) {
    return invalid("the token is not one that customccl_make_token made (it has " + std::to_string(whole.size()) +
                   " characters)");
  }
  out.directory = whole.substr(head + 1);
  return {};
}

void Token::write(customccl_token& out) const {
  const std::string text = std::string(kPrefix) + id + ":" + directory;
  std::memset(out.text, 0, sizeof(out.text));
  std::memcpy(out.text, text.data(), text.size());
}

}  // namespace customccl::capi
