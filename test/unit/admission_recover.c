#include "steward_desk.h"
