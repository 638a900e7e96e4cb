/* Completion for bash, zsh and fish; see the header. */
#include "commands/completion.h"

#include "base/array.h"
#include "base/words.h"

#include <stdlib.h>
#include <string.h>

/* ---- The values of an option ---- */

enum value {
    VALUE_NONE,  /* a flag */
    VALUE_ANY,   /* a number or a text */
    VALUE_WORD,  /* one of the row's words */
    VALUE_WORDS, /* a list of them */
    VALUE_FILE,
    VALUE_CLUSTER,
    VALUE_COUNT
};

/* A shell says a value so, with the row's words between; `after` NULL: without them. */
struct value_text {
    const char *before, *after;
};

static enum value value_of(const struct lk_option *row)
{
    if (row->role == LK_ROLE_CLUSTER)
        return VALUE_CLUSTER;
    switch (row->type) {
    case LK_OPT_FLAG:
        return VALUE_NONE;
    case LK_OPT_CHOICE:
        return VALUE_WORD;
    case LK_OPT_FILE:
        return VALUE_FILE;
    default:
        return row->words ? VALUE_WORDS : VALUE_ANY;
    }
}

/* Print the words of a value, separated by blanks. */
static void print_words(const struct lk_option *row, FILE *out)
{
    for (size_t i = 0; row->words ? i < row->words->n : row->choices[i] != NULL; i++)
        fprintf(out, "%s%s", i ? " " : "", row->words ? row->words->names[i] : row->choices[i]);
}

static void print_value(const struct value_text texts[VALUE_COUNT], const struct lk_option *row,
                        FILE *out)
{
    const struct value_text *text = &texts[value_of(row)];

    fputs(text->before, out);
    if (text->after) {
        print_words(row, out);
        fputs(text->after, out);
    }
}

static void print_names(const struct lk_command *const *all, FILE *out)
{
    for (size_t i = 0; all[i]; i++)
        fprintf(out, "%s%s", i ? " " : "", all[i]->name);
}

/* Return "no-" for a flag that is on by default: only that form changes it. */
static const char *negation(const struct lk_option *row)
{
    return row->type == LK_OPT_FLAG && row->fallback && !strcmp(row->fallback, "yes") ? "no-" : "";
}

/* Print text with a backslash before each of the characters of `special`; a quote ' ends the quoted
 * text around it and begins it again. */
static void print_escaped(const char *text, const char *special, FILE *out)
{
    for (; *text; text++)
        if (*text == '\'') {
            fputs("'\\''", out);
        } else {
            if (strchr(special, *text))
                fputc('\\', out);
            fputc(*text, out);
        }
}

/* ---- bash ---- */

/* Print "    COMMAND:--NAME | COMMAND:-n)" of a row. */
static void print_bash_case(const struct lk_command *c, const struct lk_option *row, FILE *out)
{
    fprintf(out, "    %s:--%s", c->name, row->name);
    if (row->letter)
        fprintf(out, " | %s:-%c", c->name, row->letter);
    fputs(") ", out);
}

static void print_bash_value(const struct lk_command *c, const struct lk_option *row, FILE *out)
{
    static const struct value_text texts[VALUE_COUNT] = {
        [VALUE_ANY] = {"kind=any", NULL},
        [VALUE_WORD] = {"kind=word words='", "'"},
        [VALUE_WORDS] = {"kind=words words='", "'"},
        [VALUE_FILE] = {"kind=file", NULL},
        [VALUE_CLUSTER] = {"kind=cluster", NULL},
    };

    if (value_of(row) == VALUE_NONE)
        return;
    print_bash_case(c, row, out);
    print_value(texts, row, out);
    fputs(" ;;\n", out);
}

static void print_bash_options(const struct lk_command *c, const struct lk_command *const *all,
                               FILE *out)
{
    static const char *const kinds[] = {[LK_OPERAND_FILE] = "file",
                                        [LK_OPERAND_CLUSTER] = "cluster",
                                        [LK_OPERAND_COMMAND] = "file",
                                        [LK_OPERAND_NAME] = "word"};

    fprintf(out, "    %s) operand=%s", c->name, c->operands_max ? kinds[c->operand] : "any");
    if (c->operand == LK_OPERAND_NAME) {
        fputs(" words='", out);
        print_names(all, out);
        fputc('\'', out);
    }
    fputs(" options='--help", out);
    for (const struct lk_option *row = c->options; row->name; row++)
        fprintf(out, " --%s%s%s", negation(row), row->name, value_of(row) == VALUE_NONE ? "" : "=");
    fputs("' ;;\n", out);
}

/* bash splits words at '=', so that an option's value follows a word "=". */
static const char bash_head[] =
    "# bash completion for lockstep, made by `lockstep help --completion bash`\n"
    "_lockstep()\n"
    "{\n"
    "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
    "    local command=${COMP_WORDS[1]} option= options= operand=any kind= words= before=\n"
    "    COMPREPLY=()\n";
static const char bash_middle[] = "    if [[ $cur == --*=* ]]; then\n"
                                  "        option=${cur%%=*} before=${cur%%=*}= cur=${cur#*=}\n"
                                  "    elif [ \"$cur\" = = ]; then\n"
                                  "        option=$prev cur=\n"
                                  "    elif [ \"$prev\" = = ]; then\n"
                                  "        option=${COMP_WORDS[COMP_CWORD - 2]}\n"
                                  "    elif [[ $cur != -* ]]; then\n"
                                  "        option=$prev\n"
                                  "    fi\n"
                                  "    case $command in\n";
static const char bash_tail[] =
    "    esac\n"
    "    [ -n \"$kind\" ] || kind=$operand\n"
    "    if [[ $cur == -* ]]; then\n"
    "        COMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
    "        [[ ${COMPREPLY[0]} != *= ]] || compopt -o nospace 2> /dev/null\n"
    "        return\n"
    "    fi\n"
    "    case $kind in\n"
    "    words | cluster)\n"
    "        [[ $cur != *,* ]] || before=$before${cur%,*},\n"
    "        cur=${cur##*,}\n"
    "        ;;\n"
    "    esac\n"
    "    case $kind in\n"
    "    word | words) COMPREPLY=($(compgen -P \"$before\" -W \"$words\" -- \"$cur\")) ;;\n"
    "    cluster) COMPREPLY=($(compgen -P \"$before\" -W \"$(\"${COMP_WORDS[0]}\" help --presets "
    "2> /dev/null)\" -- \"$cur\")) ;;\n"
    "    esac\n"
    "    case $kind in\n"
    "    file | cluster)\n"
    "        compopt -o filenames 2> /dev/null\n"
    "        mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -P \"$before\" -f -- \"$cur\")\n"
    "        ;;\n"
    "    esac\n"
    "}\n"
    "complete -F _lockstep lockstep\n";

static void print_bash(const struct lk_command *const *all, FILE *out)
{
    fputs(bash_head, out);
    fputs("    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
          "        COMPREPLY=($(compgen -W '--help --version ",
          out);
    print_names(all, out);
    fputs("' -- \"$cur\"))\n        return\n    fi\n", out);
    fputs(bash_middle, out);
    for (size_t i = 0; all[i]; i++)
        print_bash_options(all[i], all, out);
    fputs("    esac\n    case $command:$option in\n", out);
    for (size_t i = 0; all[i]; i++)
        for (const struct lk_option *row = all[i]->options; row->name; row++)
            print_bash_value(all[i], row, out);
    fputs(bash_tail, out);
}

/* ---- zsh ---- */

/* Print the part of a specification of _arguments behind the option: "[HELP]:VALUE:ACTION". */
static void print_zsh_value(const struct lk_option *row, FILE *out)
{
    static const struct value_text texts[VALUE_COUNT] = {
        [VALUE_NONE] = {"", NULL},
        [VALUE_ANY] = {":value: ", NULL},
        [VALUE_WORD] = {":word:(", ")"},
        [VALUE_WORDS] = {":words:_sequence compadd - ", ""},
        [VALUE_FILE] = {":file:_files", NULL},
        [VALUE_CLUSTER] = {":cluster:_lockstep_clusters", NULL},
    };

    fputc('[', out);
    print_escaped(row->help, "\\[]:", out);
    fputc(']', out);
    print_value(texts, row, out);
}

static void print_zsh_command(const struct lk_command *c, const struct lk_command *const *all,
                              FILE *out)
{
    static const char *const operands[] = {
        [LK_OPERAND_FILE] = "*:operand:_files",
        [LK_OPERAND_CLUSTER] = "*:operand:_lockstep_clusters",
        [LK_OPERAND_COMMAND] = "*::command:_normal",
        [LK_OPERAND_NAME] = "*:command:(",
    };

    fprintf(out, "    %s)\n        _arguments '--help[print the options]'", c->name);
    for (const struct lk_option *row = c->options; row->name; row++) {
        const char *equals = value_of(row) == VALUE_NONE ? "" : "=";

        if (row->letter) {
            fprintf(out, " \\\n            '(--%s)-%c%s", row->name, row->letter,
                    *equals ? "+" : "");
            print_zsh_value(row, out);
            fputc('\'', out);
        }
        fprintf(out, " \\\n            '--%s%s%s", negation(row), row->name, equals);
        print_zsh_value(row, out);
        fputc('\'', out);
    }
    if (c->operands_max || c->operand != LK_OPERAND_FILE)
        fprintf(out, " \\\n            '%s", operands[c->operand]);
    if (c->operand == LK_OPERAND_NAME) {
        print_names(all, out);
        fputc(')', out);
    }
    if (c->operands_max || c->operand != LK_OPERAND_FILE)
        fputc('\'', out);
    fputs("\n        ;;\n", out);
}

static void print_zsh(const struct lk_command *const *all, FILE *out)
{
    fputs("#compdef lockstep\n"
          "# zsh completion for lockstep, made by `lockstep help --completion zsh`\n"
          "_lockstep_clusters()\n"
          "{\n"
          "    local -a presets\n"
          "    compset -P '*,'\n"
          "    presets=(${(f)\"$(lockstep help --presets 2> /dev/null)\"})\n"
          "    _alternative 'presets:preset:compadd -a presets' 'files:file:_files'\n"
          "}\n"
          "_lockstep()\n"
          "{\n"
          "    local -a commands\n"
          "    commands=(\n",
          out);
    for (size_t i = 0; all[i]; i++) {
        fprintf(out, "        '%s:", all[i]->name);
        print_escaped(all[i]->help, "\\:", out);
        fputs("'\n", out);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe command commands\n"
          "        return\n"
          "    fi\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $words[1] in\n",
          out);
    for (size_t i = 0; all[i]; i++)
        print_zsh_command(all[i], all, out);
    fputs("    esac\n}\n_lockstep \"$@\"\n", out);
}

/* ---- fish ---- */

/* The presets; in a list, the one behind the last comma. */
#define FISH_PRESETS "'(__fish_append , (lockstep help --presets 2> /dev/null))'"

/* Print " -d 'TEXT'"; in fish a quote inside of quotes has a backslash. */
static void print_fish_help(const char *text, FILE *out)
{
    fputs(" -d '", out);
    for (; *text; text++)
        fprintf(out, "%s%c", *text == '\'' || *text == '\\' ? "\\" : "", *text);
    fputs("'\n", out);
}

static void print_fish_row(const struct lk_command *c, const struct lk_option *row, FILE *out)
{
    static const struct value_text texts[VALUE_COUNT] = {
        [VALUE_NONE] = {"", NULL},        [VALUE_ANY] = {" -x", NULL},
        [VALUE_WORD] = {" -x -a '", "'"}, [VALUE_WORDS] = {" -x -a '(__fish_append , ", ")'"},
        [VALUE_FILE] = {" -r -F", NULL},  [VALUE_CLUSTER] = {" -r -F -a " FISH_PRESETS, NULL},
    };

    fprintf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -l %s%s", c->name,
            negation(row), row->name);
    if (row->letter)
        fprintf(out, " -s %c", row->letter);
    print_value(texts, row, out);
    print_fish_help(row->help, out);
}

/* Print the command, and what its operands are where these are not files. */
static void print_fish_command(const struct lk_command *c, const struct lk_command *const *all,
                               FILE *out)
{
    fprintf(out, "complete -c lockstep -f -n __fish_use_subcommand -a %s", c->name);
    print_fish_help(c->help, out);
    if (c->operand == LK_OPERAND_CLUSTER)
        fprintf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -a %s\n", c->name,
                FISH_PRESETS);
    if (c->operand == LK_OPERAND_NAME) {
        fprintf(out, "complete -c lockstep -n '__fish_seen_subcommand_from %s' -f -a '", c->name);
        print_names(all, out);
        fputs("'\n", out);
    }
}

static void print_fish(const struct lk_command *const *all, FILE *out)
{
    fputs("# fish completion for lockstep, made by `lockstep help --completion fish`\n", out);
    for (size_t i = 0; all[i]; i++) {
        print_fish_command(all[i], all, out);
        for (const struct lk_option *row = all[i]->options; row->name; row++)
            print_fish_row(all[i], row, out);
    }
}

/* ---- All shells ---- */

const char *const completion_shells[] = {"none", "bash", "zsh", "fish", NULL};

enum lk_status print_completion(int shell, const struct lk_command *const *all,
                                const struct lk_command *help, FILE *out)
{
    static void (*const print[])(const struct lk_command *const *,
                                 FILE *) = {NULL, print_bash, print_zsh, print_fish};
    const struct lk_command **listed;
    size_t n = 0;

    while (all[n])
        n++;
    LK_PASS(lk_alloc(&listed, n + 2, sizeof *listed));
    memcpy(listed, all, n * sizeof *listed);
    listed[n] = help;
    print[shell](listed, out);
    free(listed);
    return LK_OK;
}
