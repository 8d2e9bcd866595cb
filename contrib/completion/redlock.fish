# Completion of redlock for fish. Commands and options are those of its help text.

function __redlock_commands
    redlock --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
end

# The command on the command line; fails if there is none yet.
function __redlock_command
    set -l commands (__redlock_commands | cut -f1)
    for word in (commandline -opc)[2..-1]
        contains -- $word $commands && echo $word && return
    end
    return 1
end

function __redlock_help
    redlock (__redlock_command) --help 2>/dev/null
end

function __redlock_options
    __redlock_help | sed -nE 's/^  (-.), (--[a-z-]+)( [^ ]+)?(  +(.*))?$/\1\t\5\n\2\t\5/p
        s/^      (--[a-z-]+)( [^ ]+)?(  +(.*))?$/\1\t\4/p'
end

# The name of the value of the option before the cursor.
function __redlock_value
    set -l option (commandline -opc)[-1]
    string match -q -- '-*' $option && __redlock_help |
        sed -nE "s/^(  |  -., |      )$option(, --[a-z-]+)? ([^ ]+)( .*|\$)/\3/p"
end

# Whether the usage names this operand: COMMAND or CMD
function __redlock_takes
    test -z "$(__redlock_value)" && __redlock_help | string match -q "* $argv[1]*"
end

complete -c redlock -f
complete -c redlock -n '__redlock_takes COMMAND' -a '(__redlock_commands)'
complete -c redlock -n 'string match -q -- "-*" (commandline -ct)' -a '(__redlock_options)'
complete -c redlock -n 'contains -- (__redlock_value) FILE F F.svg' -F
complete -c redlock -n 'test "$(__redlock_value)" = WHEN' -a 'auto always never'
complete -c redlock -n '__redlock_takes CMD' -a '(__fish_complete_command)'
