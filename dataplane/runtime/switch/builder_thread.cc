// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/builder_thread.h"

#include <pthread.h>
#include <sys/resource.h>

#include <asio/post.hpp>
#include <utility>

namespace headrace::runtime {
namespace {

/// Of the thread: the control thread, which shares its CPUs, comes first.
constexpr int kNice = 5;

}  // namespace

BuilderThread::BuilderThread(asio::io_context& io) : io_(io), thread_([this] { loop(); }) {
  (void)pthread_setname_np(thread_.native_handle(), "table-builder");
}

BuilderThread::~BuilderThread() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BuilderThread::build(std::function<void()> work, std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(work), std::move(done)});
  }
  changed_.notify_all();
}

void BuilderThread::wait() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.empty() && !working_; });
  }
  run_done();
}

void BuilderThread::loop() {
  setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + kNice);  // of this thread
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    Job job = std::move(waiting_.front());
    waiting_.pop_front();
    working_ = true;
    lock.unlock();
    job.work();
    job.work = nullptr;
    lock.lock();
    done_.push_back(std::move(job.done));
    working_ = false;
    changed_.notify_all();
    asio::post(io_, [this, alive = std::weak_ptr<bool>(alive_)] {
      if (!alive.expired()) run_done();
    });
  }
}

void BuilderThread::run_done() {
  for (;;) {
    std::function<void()> next;
    {
      const std::lock_guard lock(mutex_);
      if (done_.empty()) return;
      next = std::move(done_.front());
      done_.pop_front();
    }
    next();
  }
}

}  // namespace headrace::runtime
