# Locks by `redlock pipe`. ruby.md shows their use; docs/pipe.md has the lines and the duties.
require "json"

class Redlock
  LINE_MOST = 64 * 1024 # the pipe ends at a longer one
  TICK_S = 0.1          # select(2) stands still in a suspended machine, the clock does not

  Request = Struct.new(:done, :id, :is_lock, :reply, :hold)

  class Error < StandardError # code PIPE: the pipe cannot start, or has ended
    attr_reader :code, :reason, :holder, :nodes

    def initialize(reply)
      super("#{reply["error"]}: #{reply["text"]}#{" (#{reply["holder"]})" if reply["holder"]}")
      @code, @reason, @holder, @nodes = reply.values_at("error", "reason", "holder", "nodes")
    end
  end

  Hold = Struct.new(:pipe, :number, :fence, :slot, :until_us, :lost, :over) do
    def valid? = !lost && !over && pipe.ours? && Redlock.now_us < until_us

    def check # the reader decides: a newer deadline may be in the pipe
      sleep 0.001 until lost || valid? || !pipe.ours?
      raise lost if lost
    end

    def extend(ttl_ms) = pipe.ask({ op: "extend", hold: number, ttl_ms: ttl_ms })
    def beat = pipe.ask({ op: "beat", hold: number })
  end

  def self.now_us = Process.clock_gettime(Process::CLOCK_BOOTTIME, :microsecond)
  def self.error(code, text) = Error.new({ "error" => code, "text" => text })

  def initialize(nodes: nil, command: ENV.fetch("REDLOCK_COMMAND", "redlock"), args: [])
    raise "redlock pipe needs Linux" unless RUBY_PLATFORM.include?("linux")
    @env = nodes ? { "REDLOCK_NODES" => nodes.join(",") } : {} # not as arguments: see ps(1)
    @command, @mutex = [command, *args], Mutex.new
  end

  # Yields a hold, and unlocks at the end of the block. Raises Error if the lock was not acquired,
  # or was lost before that end. options: the members of a `lock`, such as ttl_ms: 30_000.
  def lock(key, **options)
    pipe = @mutex.synchronize { @pipe&.usable? ? @pipe : @pipe = Pipe.new(@env, @command) }
    request, key_or_keys = Request.new(Queue.new), key.is_a?(Array) ? :keys : :key
    begin
      pipe.ask({ op: "lock", key_or_keys => key, **options }, request)
      request.hold.check
      result = yield request.hold
    ensure
      pipe.leave(request)
    end
    raise request.hold.lost if request.hold.lost
    result
  end

  class Pipe # one child process; its reader keeps the deadlines, too
    def initialize(env, command)
      @pid, begun, @last, @requests, @holds = Process.pid, Redlock.now_us, 0, {}, {}
      @mutex, @writing = Mutex.new, Mutex.new
      (child_in, @in), (@out, child_out) = IO.pipe, IO.pipe # close-on-exec
      arguments = [*command, "pipe", "--parent", @pid.to_s]
      Process.detach(spawn(env, *arguments, in: child_in, out: child_out))
      [child_in, child_out].each(&:close)
      greet(JSON.parse(@out.gets || raise("it has ended")), begun)
      Thread.new { read }
    rescue Exception => error
      [@in, @out].each(&:close)
      raise error.is_a?(StandardError) ? Redlock.error("PIPE", error.message) : error
    end

    def ours? = Process.pid == @pid # false in a child by fork: it has no locks
    def usable? = ours? && !@ended

    def ask(members, request = Request.new(Queue.new))
      post(members, request)
      request.done.pop # nil at its close: a reply is never lost with a thread that is interrupted
      request.reply["error"] ? raise(Error.new(request.reply)) : request.reply
    end

    def leave(request) # at the end of a `lock`, however it comes
      if !request.reply && request.id # given up, as by Timeout: a hold may cross the cancel
        post({ op: "cancel", lock: request.id }, Request.new)
        Thread.new { leave(request) if request.done.pop.nil? }
      elsif (hold = request.hold)
        @mutex.synchronize { hold.over = true }
        ask({ op: "unlock", hold: hold.number })
      end
    rescue Error => error # if not one of these, the lock was held to the end
      hold.lost ||= error if hold && %w[GONE TAKEN].include?(error.code)
    end

    private

    def greet(hello, begun)
      raise hello["text"] if hello["notice"] == "error"
      raise "it speaks #{hello["schema"]}" if hello["schema"] != "redlock.pipe/1"
      return if hello["now_us"].between?(begun, Redlock.now_us + 1)
      raise "it has another CLOCK_BOOTTIME, as in a time namespace"
    end

    def post(members, request)
      raise Redlock.error("FORKED", "that lock is the parent's") unless ours?
      line = nil
      @mutex.synchronize do
        raise Error.new(@ended) if @ended
        line = JSON.generate({ id: @last += 1, **members }) << "\n"
        raise Redlock.error("BAD_KEY", "the keys are too long") if line.bytesize > LINE_MOST
        request.id, request.is_lock = @last, members[:op] == "lock"
        @requests[@last] = request if request.done
      end
      # Nothing that interrupts the thread may cut the line.
      Thread.handle_interrupt(Object => :never) { @writing.synchronize { @in.write(line) } }
    rescue SystemCallError, IOError => error
      finish(error.message)
    end

    def read
      rest = "".b
      loop do
        IO.select([@out], nil, nil, seconds_left)
        now = Redlock.now_us # first take what is in the pipe by now
        while (data = @out.read_nonblock(LINE_MOST, exception: false)) != :wait_readable
          *lines, rest = (rest + (data || raise("it has ended"))).split("\n", -1)
          @mutex.synchronize { lines.each { |line| take(JSON.parse(line)) } }
        end
        late = Redlock.error("EXPIRED", "no extension came before the deadline")
        @mutex.synchronize { lose(late) { |hold| hold.until_us <= now } }
      end
    rescue StandardError => error
      finish(error.message)
    end

    def seconds_left # to the first deadline; nil: nothing is held
      first_us = @mutex.synchronize { @holds.each_value.map(&:until_us).min }
      first_us && ((first_us - Redlock.now_us) / 1e6).clamp(0, TICK_S)
    end

    def take(message)
      number, until_us, notice = message.values_at("hold", "until_us", "notice")
      request = @requests.delete(message["id"])
      if request&.is_lock && !message["error"]
        parts = message.values_at("hold", "fence", "slot", "until_us")
        request.hold = @holds[number] = Hold.new(self, *parts)
      elsif until_us && (request || notice == "until")
        @holds[number]&.until_us = until_us
      elsif notice == "lost"
        lose(Error.new(message)) { |hold| hold.number == number }
      end
      answer(request, message) if request
    end

    def answer(request, reply)
      request.reply = reply
      request.done.close
    end

    def lose(why)
      @holds.delete_if { |_, hold| hold.over || (yield(hold) && hold.lost ||= why) }
    end

    def finish(text)
      @mutex.synchronize do
        return if @ended
        @ended = { "error" => "PIPE", "text" => text }
        lose(Error.new(@ended)) { true }
        @requests.each_value { |request| answer(request, @ended) }
      end
      [@in, @out].each(&:close)
    end
  end
end
