# Reminds each customer once, from one host at a time: ruby remind.rb FILE
require_relative "redlock_pipe"

def remind(customer) = puts("#{customer} is reminded") # here: send the mail

begin
  Redlock.new.lock("reminders", wait_ms: 0) do |hold|
    done = File.open("#{ARGV[0]}.done", "a+")
    (File.readlines(ARGV[0]) - done.readlines).each do |line|
      hold.check # raises if the lock was lost
      done.puts(line)
      done.fsync # before the mail: rather none than two
      remind(line.chomp)
    end
  end
rescue Redlock::Error => error
  warn "#{$0}: #{error.message}"
  exit(error.code == "TAKEN" ? 75 : 69)
end
