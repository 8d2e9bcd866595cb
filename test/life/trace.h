/* Records which functions a program enters and leaves, in order. */
#ifndef TEST_LIFE_TRACE_H
#define TEST_LIFE_TRACE_H

void trace_begin(void);

/* Prints "enter ADDRESS" and "exit ADDRESS" for each step since trace_begin(). */
void trace_end(void);

#endif
