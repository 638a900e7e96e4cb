/* UTF-8; see the header. */
#include "base/utf8.h"

#include <string.h>

size_t lk_utf8_bytes(const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    size_t n = s[0] < 0x80 ? 1 : s[0] < 0xc2 ? 0 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

    if (s[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
        return 0;
    return n;
}

size_t lk_utf8_next(const char *s, uint32_t *c)
{
    static const unsigned char first[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    size_t n = lk_utf8_bytes(s);

    if (!n) {
        *c = 0xfffd;
        return 1;
    }
    *c = (unsigned char)s[0] & first[n];
    for (size_t i = 1; i < n; i++)
        *c = *c << 6 | ((unsigned char)s[i] & 0x3f);
    return n;
}

bool lk_utf8_is_shown(uint32_t c)
{
    return c >= 0x20 && !(c >= 0x7f && c < 0xa0) && c != 0x061c && c != 0x200e && c != 0x200f &&
           !(c >= 0x2028 && c <= 0x202e) && !(c >= 0x2066 && c <= 0x2069) && c != 0xfffe &&
           c != 0xffff;
}

size_t lk_utf8_line(const char *text, size_t fit, size_t *skip)
{
    size_t end = strcspn(text, "\n");
    uint32_t c;

    if (end <= fit) {
        *skip = end + (text[end] == '\n');
        return end;
    }
    for (size_t i = fit; i > 0; i--)
        if (text[i] == ' ') {
            *skip = i + 1;
            return i;
        }
    *skip = fit ? fit : lk_utf8_next(text, &c); /* at least a character, so that there is an end */
    return *skip;
}
