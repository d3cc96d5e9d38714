#include "capi/comm.h"

#include "capi/error.h"
#include "capi/meeting_directory.h"
#include "capi/struct_size.h"
#include "capi/token.h"

namespace customccl::capi {

namespace {

Status check_options(const customccl_options& options, std::int32_t size) {
  if (options.directory != nullptr && options.directory[0] != '/') {
    return invalid("customccl_options.directory must be an absolute path, not \"" + std::string(options.directory) +
                   "\"");
  }
  if (options.timeout_ms < 0) {
    return invalid("customccl_options.timeout_ms is " + std::to_string(options.timeout_ms) +
                   "; it counts from 0 (the default) up");
  }
  if (options.global_ranks == nullptr) return {};
  for (std::int32_t i = 0; i < size; ++i) {
    if (options.global_ranks[i] < 0) return invalid("customccl_options.global_ranks has a negative number");
  }
  return {};
}

GroupSpec spec_of(const Token& token, std::int32_t rank, std::int32_t size, const customccl_options& options) {
  GroupSpec spec;
  spec.name = options.name != nullptr ? options.name : token.id.substr(0, 8);
  spec.rank = rank;
  spec.size = size;
  for (std::int32_t i = 0; i < size; ++i) {
    spec.global_ranks.push_back(options.global_ranks != nullptr ? options.global_ranks[i] : i);
  }
  if (options.timeout_ms > 0) spec.timeout = to_limit(std::chrono::milliseconds(options.timeout_ms));
  return spec;
}

Status join(const customccl_token* text, std::int32_t rank, std::int32_t size, const customccl_options* given,
            customccl_comm** out) {
  if (text == nullptr || out == nullptr)
    return invalid("customccl_init got NULL for the token or for where the communicator goes");
  if (size < 1 || size > CUSTOMCCL_MAX_RANKS) {
    return invalid("a communicator has 1 to " + std::to_string(CUSTOMCCL_MAX_RANKS) + " ranks, not " +
                   std::to_string(size));
  }
  if (rank < 0 || rank >= size)
    return invalid("rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks makes no sense");
  customccl_options options{};
  if (given != nullptr) {
    if (Status status = take_struct(given, "customccl_options", options); !status.ok()) return status;
  }
  if (Status status = check_options(options, size); !status.ok()) return status;
  Token token;
  if (Status status = Token::parse(*text, token); !status.ok()) return status;

  auto comm = std::make_unique<customccl_comm>();
  MeetingDirectory meeting(options.directory != nullptr ? options.directory : token.directory, token.id, rank, size);
  Status status = Communicator::create(spec_of(token, rank, size, options), meeting, comm->group);
  meeting.leave(status);
  if (!status.ok()) return status;
  *out = comm.release();
  return {};
}

Status no_comm() { return invalid("the communicator is NULL"); }

}  // namespace

}  // namespace customccl::capi

using customccl::Status;
using customccl::capi::guarded;
using customccl::capi::no_comm;

customccl_code customccl_make_token(customccl_token* token) {
  return guarded([&]() -> Status {
    if (token == nullptr) return customccl::capi::invalid("customccl_make_token got NULL for where the token goes");
    customccl::capi::Token fresh;
    if (Status status = customccl::capi::Token::make(fresh); !status.ok()) return status;
    fresh.write(*token);
    return {};
  });
}

customccl_code customccl_init(const customccl_token* token, int32_t rank, int32_t size,
                              const customccl_options* options, customccl_comm** comm) {
  return guarded([&] { return customccl::capi::join(token, rank, size, options, comm); });
}

customccl_code customccl_async_error(customccl_comm* comm) {
  return guarded([&] { return comm == nullptr ? no_comm() : comm->group->health(); });
}

customccl_code customccl_abort(customccl_comm* comm, const char* why) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return no_comm();
    if (comm->group->inherited()) return comm->group->health();
    comm->group->abort(why == nullptr ? "" : why);
    return {};
  });
}

customccl_code customccl_destroy(customccl_comm* comm) {
  return guarded([&]() -> Status {
    if (comm != nullptr) comm->group->close();
    delete comm;
    return {};
  });
}

int32_t customccl_rank(const customccl_comm* comm) { return comm == nullptr ? -1 : comm->group->spec().rank; }

int32_t customccl_size(const customccl_comm* comm) { return comm == nullptr ? -1 : comm->group->spec().size; }
