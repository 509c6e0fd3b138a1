// A second thread for work that is on somebody's latency path: prefill splits each layer's columns and rows with it.
// Who computes a sum never changes the order within it, so results are the same with and without the helper.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kf {

class Team {
  public:
    explicit Team(bool has_helper) {
        if (has_helper) helper_ = std::thread([this] { serve(); });
    }
    ~Team() {
        if (!helper_.joinable()) return;
        post(nullptr, nullptr);
        helper_.join();
    }
    Team(const Team&) = delete;

    // Whether the helper takes part from here on. It should not where other work keeps the CPUs busy: the caller
    // would wait for a thread that waits for a CPU.
    void use_helper(bool wanted) { is_used_ = wanted && helper_.joinable(); }

    // work(share) for share 0 on the caller and share 1 on the helper (both on the caller if it takes no part).
    template <class Work>
    void split(Work work) {
        if (!is_used_) {
            work(0);
            work(1);
            return;
        }
        post([](void* w) { (*static_cast<Work*>(w))(1); }, &work);
        work(0);
        while (is_busy_.load(std::memory_order_acquire)) std::this_thread::yield();
    }

  private:
    using Call = void (*)(void*);
    // The next piece comes within microseconds while a prefill lasts: worth a short wait before sleeping.
    static constexpr int kSpins = 2000;

    std::thread helper_;
    bool is_used_ = false;
    std::mutex mutex_;
    std::condition_variable posted_;
    Call call_ = nullptr;
    void* argument_ = nullptr;
    std::atomic<unsigned> posts_{0};
    std::atomic<bool> is_busy_{false};

    void post(Call call, void* argument) {
        is_busy_.store(true, std::memory_order_relaxed);
        {
            std::lock_guard<std::mutex> lock(mutex_);
            call_ = call, argument_ = argument;
            posts_.fetch_add(1, std::memory_order_release);
        }
        posted_.notify_one();
    }

    void serve() {
        for (unsigned seen = 0;; seen++) {
            for (int i = 0; i < kSpins && posts_.load(std::memory_order_acquire) == seen; i++)
                std::this_thread::yield();
            if (posts_.load(std::memory_order_acquire) == seen) {
                std::unique_lock<std::mutex> lock(mutex_);
                posted_.wait(lock, [&] { return posts_.load(std::memory_order_acquire) != seen; });
            }
            if (!call_) return;
            call_(argument_);
            is_busy_.store(false, std::memory_order_release);
        }
    }
};

}  // namespace kf
