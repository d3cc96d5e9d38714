#include "core/mailbox.h"

#include <gtest/gtest.h>

namespace customccl::test {
namespace {

// What is set aside of a source, and who waits for it, decide whether more of it is read: back-pressure, and no more.
class MailboxTest : public testing::Test {
 protected:
  static Call recv_from(int peer) {
    Call call;
    call.op = Op::kRecv;
    call.peer = peer;
    call.tag = 5;
    return call;
  }
  void set_aside(std::uint32_t bytes) {
    Message message;
    message.source = 1;
    message.header.tag = 5;
    message.header.bytes = bytes;
    message.header.total = bytes;
    message.data = std::make_unique<std::byte[]>(bytes);
    mailbox_.set_aside(std::move(message));
  }
  void fill() {
    while (mailbox_.takes_more(1)) set_aside(1 << 20);
  }

  Mailbox mailbox_{3};
};

TEST_F(MailboxTest, ThatIsFullOfOneSourceTakesThoseOfOthers) {
  fill();
  EXPECT_FALSE(mailbox_.takes_more(1));
  EXPECT_TRUE(mailbox_.takes_more(2));
}

TEST_F(MailboxTest, TakesAsMuchAgainOnceAllIsTaken) {
  fill();
  const std::size_t full = mailbox_.messages().size();
  while (mailbox_.take_message(recv_from(1))) {
  }
  fill();
  EXPECT_EQ(mailbox_.messages().size(), full);
}

TEST_F(MailboxTest, IsAsFullAsBeforeOnceAMessageIsPutBack) {
  fill();
  std::optional<Message> message = mailbox_.take_message(recv_from(1));
  EXPECT_TRUE(mailbox_.takes_more(1));
  mailbox_.put_back(std::move(*message));
  EXPECT_FALSE(mailbox_.takes_more(1));
}

TEST_F(MailboxTest, DoesNotTakeEndlesslyManyMessagesWithoutBytes) {
  for (int i = 0; mailbox_.takes_more(1); ++i) {
    ASSERT_LT(i, 1'000'000);
    set_aside(0);
  }
}

TEST_F(MailboxTest, TakesMoreWhileSomebodyLooks) {
  fill();
  for (const int peer : {1, kAnySource}) {
    mailbox_.begin_look(recv_from(peer));
    EXPECT_TRUE(mailbox_.takes_more(1));
    mailbox_.end_look(recv_from(peer));
    EXPECT_FALSE(mailbox_.takes_more(1));
  }
  mailbox_.begin_look(recv_from(2));
  EXPECT_FALSE(mailbox_.takes_more(1));
}

TEST_F(MailboxTest, TakesMoreWhileSomebodyWaits) {
  fill();
  for (const int peer : {1, kAnySource}) {
    Task recv(recv_from(peer), Nanos(0));
    mailbox_.post(recv);
    EXPECT_TRUE(mailbox_.takes_more(1));
    EXPECT_TRUE(mailbox_.withdraw(recv));
    EXPECT_FALSE(mailbox_.takes_more(1));
    EXPECT_FALSE(mailbox_.withdraw(recv));
    mailbox_.post(recv);
    EXPECT_EQ(mailbox_.take_recv(1, 5), &recv);
    EXPECT_FALSE(mailbox_.takes_more(1));
  }
}

}  // namespace
}  // namespace customccl::test
