// Headers that most tests include, parsed once (cmake/precompile.cmake).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cmake/standard_headers.h"
