# The driver of docs/guide/redlock_pipe.rb for conform.py: README.md has the steps and the lines.
require "timeout"
require_relative "../../docs/guide/redlock_pipe"

CLIENT = Redlock.new

def say(*words) = $stdout.syswrite("#{words.join(" ")}\n")
def now = Process.clock_gettime(Process::CLOCK_MONOTONIC)

def work(hold, verb, key, seconds)
  till = now + seconds
  say key, "held", hold.fence
  case verb
  when "extend"
    begin
      hold.extend(6000)
      say key, "extended"
    rescue Redlock::Error => error
      say key, "not-extended", error.code
    end
  when "child"
    say key, "child", spawn("sleep 40")
  end
  begin
    while now < till
      hold.check
      sleep 0.005
    end
  rescue Redlock::Error => error
    say key, "aborted", error.code
    sleep 0.3
  end
  say key, "returned", hold.valid? ? "valid" : "invalid"
end

def hold(verb, key, seconds)
  Timeout.timeout(verb == "cancel" ? seconds : nil) do
    CLIENT.lock(key, fence: true) { |hold| work(hold, verb, key, seconds) }
  end
  say key, "released"
rescue Redlock::Error => error
  say key, "failed", error.code, error.message
rescue Timeout::Error
  say key, "failed", "CANCELLED"
end

def many(key, count)
  locks = Array.new(count) { |i| Thread.new { CLIENT.lock("#{key}#{i}") { true } rescue false } }
  say key, "many", locks.count(&:value)
end

ARGV.each do |step|
  threads = step.split(",").map do |part|
    verb, key, number = part.split(":")
    Thread.new { verb == "many" ? many(key, number.to_i) : hold(verb, key, number.to_i / 1000.0) }
  end
  threads.each(&:join)
end
