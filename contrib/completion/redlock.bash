# Completion of redlock for bash. Commands and options are those of its help text.

_redlock() {
  local program=$1 word=$2 previous=$3 commands command='' help one i
  commands=$("$program" --help 2>/dev/null | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\)  .*/\1/p')
  for ((i = 1; i < COMP_CWORD; i++)); do
    for one in $commands; do
      [[ ${COMP_WORDS[i]} != "$one" ]] || command=$one
    done
    [[ -z $command ]] || break
  done
  for ((; i < COMP_CWORD; i++)); do
    if [[ ${COMP_WORDS[i]} == -- ]] && declare -F _command_offset >/dev/null; then
      _command_offset $((i + 1))
      return
    fi
  done
  help=$("$program" $command --help 2>/dev/null)

  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$(sed -nE \
      's/^  (-.), (--[a-z-]+).*/\1 \2/p; s/^      (--[a-z-]+).*/\1/p' <<<"$help")" -- "$word")
    return
  fi
  # The name of the value of the option before the cursor.
  case $([[ $previous != -* ]] ||
    sed -nE "s/^(  |  -., |      )$previous(, --[a-z-]+)? ([^ ]+)( .*|$)/\\3/p" <<<"$help") in
  FILE | F | F.svg) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
  WHEN) mapfile -t COMPREPLY < <(compgen -W 'auto always never' -- "$word") ;;
  ?*) ;;
  *)
    if [[ -z $command ]]; then
      mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
    elif [[ $help == *' CMD '* ]]; then
      mapfile -t COMPREPLY < <(compgen -c -- "$word")
    fi
    ;;
  esac
}

complete -F _redlock redlock
